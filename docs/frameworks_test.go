package docs_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// required returns the versions that a go.mod asks for, by module.
func required(t *testing.T, mod string) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "mod", "edit", "-json", mod).Output()
	require.NoError(t, err)
	var parsed struct {
		Require []struct{ Path, Version string }
	}
	require.NoError(t, json.Unmarshal(out, &parsed))
	versions := map[string]string{}
	for _, r := range parsed.Require {
		versions[r.Path] = r.Version
	}
	return versions
}

// The table of versions in adapters.md shows the floors that go.mod asks for,
// and that of each adapter with a module of its own. All suites pass on them.
func TestTableOfVersionsShowsTheFloors(t *testing.T) {
	library := required(t, "../go.mod")
	floors := []map[string]string{library}
	for _, dir := range []string{"../grpclimit", "../connectlimit", "../mcplimit", "../mcplimit/mcpgo"} {
		floors = append(floors, required(t, dir+"/go.mod"))
	}
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| `([^`]+)` \\| (v[^|]+) \\| v[^|]+ \\|$").FindAllStringSubmatch(string(read(t, "adapters.md")), -1)
	require.NotEmpty(t, rows)
	shown := map[string]bool{}
	for _, row := range rows {
		module, oldest := row[1], row[2] // which says too if its suite fails
		shown[module] = true
		if !slices.ContainsFunc(floors, func(asked map[string]string) bool { return asked[module] == oldest }) {
			t.Errorf("adapters.md: no go.mod asks for %s %s, on which the suite must pass: run ./scripts/frameworks", module, oldest)
		}
	}
	direct, _, found := strings.Cut(string(read(t, "../go.mod")), "// For tests only.")
	require.True(t, found)
	for module := range library {
		ofOTel := strings.HasPrefix(module, "go.opentelemetry.io/otel/") // one row for all
		if strings.Contains(direct, "\t"+module+" ") && !ofOTel && !shown[module] {
			t.Errorf("adapters.md does not show %s: add it to scripts/frameworks", module)
		}
	}
}

func TestFrameworksTestsEveryAdapter(t *testing.T) {
	tested := strings.Fields(string(read(t, "../scripts/frameworks")))
	for _, dir := range append(glob(t, "../*limit"), "../echolimit/v5", "../fiberlimit/v3", "../mcplimit/mcpgo") {
		name := strings.TrimPrefix(filepath.ToSlash(dir), "../")
		if slices.Contains([]string{"clientlimit", "adminlimit"}, name) {
			continue // of no framework
		}
		if !slices.Contains(tested, "./"+name) && !slices.Contains(tested, name) {
			t.Errorf("scripts/frameworks does not test %s", name)
		}
	}
}
