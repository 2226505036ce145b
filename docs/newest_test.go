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

// scripts/newest asks a module proxy. This one lists some of the releases, has
// others, and hands out most of them.
func TestNewestFindsReleasesThatNoProxyLists(t *testing.T) {
	has := []string{
		"example.com/current v1.2.3",
		"example.com/listed v1.0.0", "example.com/listed v1.4.0",
		"example.com/patch/v3 v3.1.0", "example.com/patch/v3 v3.1.1", "example.com/patch/v3 v3.1.2",
		"example.com/minor v0.9.0", "example.com/minor v0.10.0",
		"example.com/withheld v1.0.0", "example.com/withheld v1.0.1",
		"example.com/major v1.0.0", "example.com/major/v2 v2.0.0",
		"example.com/both v1.0.0", "example.com/both/v2 v2.0.0",
		"example.com/hidden v1.1.0", "example.com/hidden v1.2.0", "example.com/hidden v1.9.0",
		"example.com/ahead v1.0.0", "example.com/ahead v1.1.0",
		"example.com/stable v0.1.0", "example.com/stable v1.0.0",
		"example.com/gap v1.0.0", "example.com/gap v1.0.1", "example.com/gap v1.0.4",
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		module, file, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/@v/")
		version := strings.TrimSuffix(file, path.Ext(file))
		switch {
		case file == "list" && module == "example.com/listed":
			fmt.Fprintln(w, "v1.0.0\nv1.4.0\nv1.5.0-rc.1")
		case file == "list" && module == "example.com/hidden":
			fmt.Fprintln(w, "v1.0.0\nv1.9.0")
		case !slices.Contains(has, module+" "+version) || module == "example.com/withheld" && file == "v1.0.1.zip", module == "example.com/hidden" && file == "v1.9.0.zip":
			http.Error(w, "not here", http.StatusForbidden)
		case path.Ext(file) == ".info":
			fmt.Fprintf(w, `{"Version":%q}`, version)
		case path.Ext(file) == ".mod":
			fmt.Fprintln(w, "module", module+needs(module+" "+version))
		default:
			z := zip.NewWriter(w)
			f, _ := z.Create(module + "@" + version + "/go.mod")
			fmt.Fprintln(f, "module", module+needs(module+" "+version))
			_ = z.Close()
		}
	}))
	defer proxy.Close()

	page := filepath.Join(t.TempDir(), "page.md")
	list := "- a: example.com/current v1.2.3\n- b: example.com/listed v1.0.0, example.com/patch/v3 v3.1.0\n- c: example.com/minor v0.9.0, read\n" +
		"- d: example.com/withheld v1.0.0\n- e: example.com/major v1.0.0\n- f: example.com/stable v0.1.0\n- g: example.com/unknown v1.0.0\n" +
		"- h: example.com/both/v2 v2.0.0 and example.com/both v1.0.0\n- i: example.com/hidden v1.1.0\n- j: example.com/ahead v1.0.0\n" +
		"- k: example.com/gap v1.0.0\n"
	require.NoError(t, os.WriteFile(page, []byte(list), 0o600))
	newest := exec.Command("../scripts/newest", page)
	newest.Env = append(os.Environ(), "GOPROXY="+proxy.URL, "GOSUMDB=off", "GONOSUMDB=*", "GOPRIVATE=", "GONOPROXY=none", "GOFLAGS=-modcacherw",
		"GOMODCACHE="+t.TempDir(), "GOWORK=off")
	out, err := newest.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Equal(t, []string{
		"example.com/current v1.2.3: the newest",
		"example.com/listed v1.0.0: there is v1.4.0",
		"example.com/patch/v3 v3.1.0: there is v3.1.2",
		"example.com/minor v0.9.0: there is v0.10.0",
		"example.com/withheld v1.0.1: can't be downloaded",
		"example.com/withheld v1.0.0: the newest",
		"example.com/major v1.0.0: there is example.com/major/v2 v2.0.0",
		"example.com/stable v0.1.0: there is example.com/stable v1.0.0",
		"example.com/unknown v1.0.0: can't be asked for",
		"example.com/both/v2 v2.0.0: the newest",
		"example.com/both v1.0.0: the newest",
		"example.com/hidden v1.9.0: can't be downloaded",
		"example.com/hidden v1.1.0: there is v1.2.0",
		"example.com/ahead v1.0.0: there is v1.1.0",
		"example.com/gap v1.0.0: there is v1.0.4",
	}, strings.Split(strings.TrimSpace(string(out)), "\n"))

	require.NoError(t, os.WriteFile(page, []byte("- a: example.com/current v1.2.3\n"), 0o600))
	ok := exec.Command(newest.Path, page)
	ok.Env = newest.Env
	out, err = ok.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// needs returns the lines of a go.mod after its first, of a release that
// requires a Go that is not there yet.
func needs(release string) string {
	if release == "example.com/ahead v1.1.0" {
		return "\n\ngo 1.999.0"
	}
	return ""
}
