package docs_test

import (
	"archive/zip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// releases are lines of a page, the releases that a proxy has, and what
// scripts/newest says.
var releases = []struct {
	line string
	has  []string
	says []string
}{
	{"a: example.com/current v1.2.3", []string{"current v1.2.3"}, []string{"current v1.2.3: the newest"}},
	{
		"b: example.com/listed v1.0.0, example.com/patch/v3 v3.1.0",
		[]string{"listed v1.0.0", "listed v1.4.0", "patch/v3 v3.1.0", "patch/v3 v3.1.1", "patch/v3 v3.1.2"},
		[]string{"listed v1.0.0: there is v1.4.0", "patch/v3 v3.1.0: there is v3.1.2"},
	},
	{"c: example.com/minor v0.9.0, read", []string{"minor v0.9.0", "minor v0.10.0"}, []string{"minor v0.9.0: there is v0.10.0"}},
	{
		"d: example.com/withheld v1.0.0", []string{"withheld v1.0.0", "withheld v1.0.1"},
		[]string{"withheld v1.0.1: can't be downloaded", "withheld v1.0.0: the newest"},
	},
	{"e: example.com/major v1.0.0", []string{"major v1.0.0", "major/v2 v2.0.0"}, []string{"major v1.0.0: there is example.com/major/v2 v2.0.0"}},
	{"f: example.com/stable v0.1.0", []string{"stable v0.1.0", "stable v1.0.0"}, []string{"stable v0.1.0: there is example.com/stable v1.0.0"}},
	{"g: example.com/unknown v1.0.0", nil, []string{"unknown v1.0.0: can't be asked for"}},
	{
		"h: example.com/both/v2 v2.0.0 and example.com/both v1.0.0", []string{"both v1.0.0", "both/v2 v2.0.0"},
		[]string{"both/v2 v2.0.0: the newest", "both v1.0.0: the newest"},
	},
	{
		"i: example.com/hidden v1.1.0", []string{"hidden v1.1.0", "hidden v1.2.0", "hidden v1.9.0"},
		[]string{"hidden v1.9.0: can't be downloaded", "hidden v1.1.0: there is v1.2.0"},
	},
	{"j: example.com/ahead v1.0.0", []string{"ahead v1.0.0", "ahead v1.1.0"}, []string{"ahead v1.0.0: there is v1.1.0"}},
	{"k: example.com/gap v1.0.0", []string{"gap v1.0.0", "gap v1.0.1", "gap v1.0.4"}, []string{"gap v1.0.0: there is v1.0.4"}},
}

// scripts/newest asks a module proxy. This one lists some of the releases, has
// others, and hands out most of them.
func TestNewestFindsReleasesThatNoProxyLists(t *testing.T) {
	lists := map[string]string{"listed": "v1.0.0\nv1.4.0\nv1.5.0-rc.1\n", "hidden": "v1.0.0\nv1.9.0\n"}
	withheld := []string{"withheld v1.0.1", "hidden v1.9.0"}
	var has, says []string
	page := ""
	for _, r := range releases {
		has, page = append(has, r.has...), page+"- "+r.line+"\n"
		for _, line := range r.says {
			says = append(says, "example.com/"+line)
		}
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/example.com/"), "/@v/")
		release := name + " " + strings.TrimSuffix(file, path.Ext(file))
		mod := "module example.com/" + name + "\n"
		if release == "ahead v1.1.0" {
			mod += "\ngo 1.999.0\n" // a Go that is not there yet
		}
		switch {
		case file == "list" && lists[name] != "":
			fmt.Fprint(w, lists[name])
		case !slices.Contains(has, release), path.Ext(file) == ".zip" && slices.Contains(withheld, release):
			http.Error(w, "not here", http.StatusForbidden)
		case path.Ext(file) == ".info":
			fmt.Fprintf(w, `{"Version":%q}`, strings.TrimSuffix(file, ".info"))
		case path.Ext(file) == ".mod":
			fmt.Fprint(w, mod)
		default:
			z := zip.NewWriter(w)
			f, _ := z.Create("example.com/" + strings.Replace(release, " ", "@", 1) + "/go.mod")
			fmt.Fprint(f, mod)
			_ = z.Close()
		}
	}))
	defer proxy.Close()
	newest := func(page string) (string, error) {
		file := filepath.Join(t.TempDir(), "page.md")
		require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
		script := exec.Command("../scripts/newest", file)
		script.Env = append(os.Environ(), "GOPROXY="+proxy.URL, "GOSUMDB=off", "GONOSUMDB=*", "GOPRIVATE=", "GONOPROXY=none", "GOFLAGS=-modcacherw",
			"GOMODCACHE="+t.TempDir(), "GOWORK=off")
		out, err := script.CombinedOutput()
		return string(out), err
	}
	out, err := newest(page)
	require.Error(t, err, "%s", out)
	require.Equal(t, says, strings.Split(strings.TrimSpace(out), "\n"))
	out, err = newest("- " + releases[0].line + "\n")
	require.NoError(t, err, "%s", out)
}

// A floor of go.mod with a vulnerability that a newer version has fixed fails
// the script, called or not. One that nobody has fixed, and is not called, does
// not; neither does one of Go's own library. govulncheck itself succeeds in all
// three, and here another program stands for it.
func TestVulnerabilitiesFailsForFloorsThatANewerVersionMends(t *testing.T) {
	for _, test := range []struct {
		fixed  string
		passes bool
	}{
		{"Fixed in: example.com/floor@v1.2.4", false},
		{"Fixed in: N/A", true},
		{"Fixed in: net/http@go1.99.1", true},
	} {
		bin := t.TempDir()
		said := "#!/bin/sh\ncat <<'E'\n=== Symbol Results ===\n\nNo vulnerabilities found.\n\n=== Module Results ===\n\n" +
			"Vulnerability #1: GO-2099-0001\n  Module: example.com/floor\n    Found in: example.com/floor@v1.2.3\n    " + test.fixed + "\nE\n"
		require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(said), 0o700))
		script := exec.Command("../scripts/vulnerabilities")
		script.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "GOVULNDB=file://"+bin)
		out, err := script.CombinedOutput()
		if test.passes {
			require.NoError(t, err, "%s: %s", test.fixed, out)
			continue
		}
		require.Error(t, err, test.fixed)
		require.Contains(t, string(out), "grpclimit/go.mod: raise what it requires: "+test.fixed)
	}
}
