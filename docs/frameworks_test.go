package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of versions in adapters.md shows the floors that go.mod asks for,
// and that of each adapter with a module of its own. All suites pass on them.
func TestTableOfVersionsShowsTheFloors(t *testing.T) {
	var mod struct {
		Require []struct{ Path, Version string }
	}
	floors := map[string]string{}
	for _, dir := range []string{"../grpclimit", "../connectlimit", "../mcplimit", "../mcplimit/mcpgo", ".."} { // the last is in mod afterwards
		out, err := exec.Command("go", "mod", "edit", "-json", dir+"/go.mod").Output()
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(out, &mod))
		for _, r := range mod.Require {
			floors[r.Path] = r.Version
		}
	}

	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| (v[^|]+) \\| v[^|]+ \\|$").FindAllStringSubmatch(string(read(t, "adapters.md")), -1)
	require.NotEmpty(t, rows)
	var shown []string
	for _, row := range rows {
		module, oldest := row[1], row[2] // which says too if its suite fails
		shown = append(shown, module)
		if floors[module] != oldest {
			t.Errorf("adapters.md: %s %s; go.mod asks for %q, on which the suite must pass: run ./scripts/frameworks", module, oldest, floors[module])
		}
	}
	direct, _, found := strings.Cut(string(read(t, "../go.mod")), "// For tests only.")
	require.True(t, found)
	for _, r := range mod.Require {
		ofOTel := strings.HasPrefix(r.Path, "go.opentelemetry.io/otel/") // one row for all
		if strings.Contains(direct, "\t"+r.Path+" ") && !ofOTel && !slices.Contains(shown, r.Path) {
			t.Errorf("adapters.md does not show %s: add it to scripts/frameworks", r.Path)
		}
	}
}

// Every adapter of the first table in adapters.md is tested by scripts/frameworks.
func TestFrameworksTestsEveryAdapter(t *testing.T) {
	adapters := regexp.MustCompile("(?m)^\\| `…/([^`]+)` \\|").FindAllStringSubmatch(string(read(t, "adapters.md")), -1)
	require.NotEmpty(t, adapters)
	tested := strings.Fields(string(read(t, "../scripts/frameworks")))
	adapters = append(adapters, regexp.MustCompile("(?m)^\\| \\[`…/([^`]+)`\\]\\(rpc.md\\) \\|").FindAllStringSubmatch(string(read(t, "adapters.md")), -1)...)
	for _, a := range adapters {
		if !slices.Contains(tested, "./"+a[1]) && !slices.Contains(tested, a[1]) {
			t.Errorf("scripts/frameworks does not test %s", a[1])
		}
	}
}

// Each row of scripts/frameworks names packages and, in its last field, a module
// of their own.
func TestRowsOfFrameworksNamePackages(t *testing.T) {
	_, rows, found := strings.Cut(string(read(t, "../scripts/frameworks")), "\nframeworks='\n")
	require.True(t, found)
	rows, _, found = strings.Cut(rows, "\n'\n")
	require.True(t, found)
	for row := range strings.SplitSeq(rows, "\n") {
		fields := strings.Split(row, ";")
		require.GreaterOrEqual(t, len(fields), 3, row)
		module := ".."
		if len(fields) > 3 {
			module = filepath.Join(module, strings.TrimSpace(fields[3]))
		}
		require.FileExists(t, filepath.Join(module, "go.mod"), row)
		packages, _, _ := strings.Cut(fields[2], " -run ")
		for dir := range strings.FieldsSeq(packages) {
			require.DirExists(t, filepath.Join(module, strings.TrimSuffix(dir, "/...")), row)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}
