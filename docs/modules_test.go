package docs_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// moduleDirs returns the directory of each go.mod of the repository, from its
// top.
func moduleDirs(t *testing.T) (dirs []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(file string, _ fs.DirEntry, err error) error {
		if path.Base(file) == "go.mod" && !strings.Contains(file, "testdata/") {
			dirs = append(dirs, path.Dir(file))
		}
		return err
	}))
	require.Contains(t, dirs, ".")
	return dirs
}

// used returns the directories that the go.work of a directory uses, from the
// top of the repository.
func used(t *testing.T, dir string) (dirs []string) {
	t.Helper()
	out, err := exec.Command("go", "work", "edit", "-json", filepath.Join("..", dir, "go.work")).Output()
	require.NoError(t, err, dir)
	var work struct{ Use []struct{ DiskPath string } }
	require.NoError(t, json.Unmarshal(out, &work))
	for _, u := range work.Use {
		dirs = append(dirs, path.Join(dir, filepath.ToSlash(u.DiskPath)))
	}
	return dirs
}

// Plain go commands work in the directory of every module: the next go.work
// above it uses it.
func TestEachModuleIsInAWorkspace(t *testing.T) {
	top := used(t, ".")
	for _, dir := range moduleDirs(t) {
		_, err := os.Stat(filepath.Join("..", dir, "go.work"))
		own := err == nil && dir != "."
		switch {
		case !own && !slices.Contains(top, dir):
			t.Errorf("go commands fail in %s: name it in go.work, or give it a go.work of its own if it asks for newer versions than the library needs", dir)
		case own && slices.Contains(top, dir):
			t.Errorf("%s is in the go.work at the top and has its own: one of them is enough", dir)
		case own && !slices.Equal(used(t, dir), []string{dir}):
			t.Errorf("%s/go.work must use its own module alone: use .", dir)
		}
	}
}

func TestDependabotUpdatesEachModule(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	require.NoError(t, yaml.Unmarshal(read(t, "../.github/dependabot.yml"), &config))
	var named []string
	for _, u := range config.Updates {
		for _, dir := range append(u.Directories, u.Directory) {
			if dir != "" && u.Ecosystem == "gomod" {
				named = append(named, path.Join(".", strings.TrimPrefix(dir, "/")))
			}
		}
	}
	require.ElementsMatch(t, moduleDirs(t), named, "dependabot.yml must name the directory of each go.mod once")
}

// Each action of the workflows is pinned by a commit, whose version stands
// beside it, and no token can write by default.
func TestActionsArePinnedByCommit(t *testing.T) {
	pinned := regexp.MustCompile(`^\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.+)$`)
	for _, workflow := range glob(t, "../.github/workflows/*.yml") {
		text := string(read(t, workflow))
		require.Regexp(t, `(?m)^permissions:\n  contents: read$`, text, "%s: the token must not be able to write", workflow)
		for _, action := range uses.FindAllStringSubmatch(text, -1) {
			require.Regexp(t, pinned, action[1], "%s: write a commit, and its version in a comment", workflow)
		}
	}
}

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
