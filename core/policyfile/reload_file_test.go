package policyfile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

const (
	inLines = `policies:
  - name: api # of all customers
    limits:
      - 600/min burst 20
      - 10000/day aligned in Europe/Berlin
    on_failure: closed
  - name: login
    limits: [5/15min]
    overrides:
      ip:192.0.2.1: [10/min]
    shadow: false
`
	inBrackets = `{"policies": [
	{"name": "api", "limits": ["600/min burst 20"], "on_failure": "closed"},
	{"name": "login", "limits": ["5/15min"], "overrides": {"ip:192.0.2.1": ["10/min"]}, "shadow": false}
]}
`
)

// A writer that fails, or is slow, leaves a part of the file: at any byte all
// limiters have the policies of what is there, or none.
func TestReloadOfAPartOfAFileIsAllOrNothing(t *testing.T) {
	for form, text := range map[string]string{
		"lines": inLines, "lines that end with CRLF": strings.ReplaceAll(inLines, "\n", "\r\n"), "lines behind a byte order mark": "\ufeff" + inLines,
		"brackets with tabs": inBrackets, "brackets that end with CRLF": strings.ReplaceAll(inBrackets, "\n", "\r\n"),
	} {
		path, api, login := limitersOf(t)
		whole := false
		for n := range len(text) + 1 {
			write(t, path, text[:n])
			wants := map[*core.Limiter]core.Policy{api: api.Policy(), login: login.Policy()}
			policies, mistakes := policyfile.Load(strings.NewReader(text[:n]))
			_, hasAPI := policies["api"]
			_, hasLogin := policies["login"]
			err := policyfile.Reload(path, api, login)
			whole = mistakes == nil && hasAPI && hasLogin
			if whole {
				require.NoError(t, err, "%s, %d bytes", form, n)
				wants = map[*core.Limiter]core.Policy{api: policies["api"], login: policies["login"]}
			} else {
				require.ErrorContains(t, err, path+":", "%s, %d bytes: the error names the file", form, n)
			}
			for l, want := range wants {
				require.Equal(t, want, l.Policy(), "%s, %d bytes: all limiters have the file's policies, or none: %v", form, n, err)
			}
			if strings.HasPrefix(form, "brackets") && n < len(strings.TrimSpace(text)) {
				require.Error(t, err, "%s, %d bytes: a file in brackets is refused until the last one is closed", form, n)
			}
		}
		require.True(t, whole, "%s: the premise: the whole file is right", form)
	}
}

// Files that can't be read change nothing, and the next file that can is
// followed, however it came there.
func TestReloadFollowsAFileThatIsReplaced(t *testing.T) {
	path, api, login := limitersOf(t)
	dir := filepath.Dir(path)
	link := func(to string) {
		require.NoError(t, os.Symlink(to, path+".new"))
		require.NoError(t, os.Rename(path+".new", path))
	}
	wants := int64(60)
	for _, step := range []struct {
		name    string
		replace func()
		want    int64 // the Capacity afterwards; 0 is an error
	}{
		{"removed", func() { require.NoError(t, os.Remove(path)) }, 0},
		{"a directory", func() { require.NoError(t, os.Mkdir(path, 0o700)) }, 0},
		{"a new file", func() {
			require.NoError(t, os.Remove(path))
			write(t, path, strings.ReplaceAll(before, "60/min", "61/min"))
		}, 61},
		{"empty", func() { write(t, path, "") }, 0},
		{"a comment alone", func() { write(t, path, "# soon\n") }, 0},
		{"zeros, as after a crash", func() { write(t, path, string(bytes.Repeat([]byte{0}, 512))) }, 0},
		{"zeros at its end", func() { write(t, path, before+"\x00\x00") }, 0},
		{"UTF-16", func() { write(t, path, "\xff\xfe-\x00 \x00") }, 0},
		{"renamed", func() {
			write(t, path+".new", strings.ReplaceAll(before, "60/min", "62/min"))
			require.NoError(t, os.Rename(path+".new", path))
		}, 62},
		{"a link to a directory of a ConfigMap", func() {
			for at, text := range map[string]string{"..1": "63/min", "..2": "64/min"} {
				require.NoError(t, os.Mkdir(filepath.Join(dir, at), 0o700))
				write(t, filepath.Join(dir, at, "policies.yaml"), strings.ReplaceAll(before, "60/min", text))
			}
			require.NoError(t, os.Symlink("..1", filepath.Join(dir, "..data")))
			link(filepath.Join("..data", "policies.yaml"))
		}, 63},
		{"the ConfigMap's next version", func() {
			require.NoError(t, os.Symlink("..2", filepath.Join(dir, "..data.new")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..data.new"), filepath.Join(dir, "..data")))
		}, 64},
		{"a link to nothing", func() { link("none") }, 0},
		{"a link to itself", func() { link(filepath.Base(path)) }, 0},
	} {
		step.replace()
		err := policyfile.Reload(path, api, login)
		if step.want == 0 {
			require.ErrorContains(t, err, path, "%s: the error names the file", step.name)
		} else {
			require.NoError(t, err, step.name)
			wants = step.want
		}
		require.Equal(t, wants, api.Limits("k")[0].Capacity, "%s: the last file that could be read counts", step.name)
	}
}
