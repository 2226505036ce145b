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

// used returns the directories that a go.work uses, from the top of the
// repository.
func used(t *testing.T, file string) (dirs []string) {
	t.Helper()
	out, err := exec.Command("go", "work", "edit", "-json", file).Output()
	require.NoError(t, err, file)
	var work struct{ Use []struct{ DiskPath string } }
	require.NoError(t, json.Unmarshal(out, &work))
	for _, u := range work.Use {
		dir, err := filepath.Rel("..", filepath.Join(filepath.Dir(file), u.DiskPath))
		require.NoError(t, err)
		dirs = append(dirs, filepath.ToSlash(dir))
	}
	return dirs
}

// Plain go commands work in the directory of every module: the next go.work
// above it uses it.
func TestEachModuleIsInAWorkspace(t *testing.T) {
	top := used(t, "../go.work")
	require.Contains(t, top, ".")
	for _, dir := range moduleDirs(t) {
		own := filepath.Join("..", dir, "go.work")
		_, err := os.Stat(own)
		switch {
		case dir == ".":
		case os.IsNotExist(err) && !slices.Contains(top, dir):
			t.Errorf("go commands fail in %s: name it in go.work, or give it a go.work of its own if it asks for newer versions than the library needs", dir)
		case err == nil && slices.Contains(top, dir):
			t.Errorf("%s is in the go.work at the top and has its own: one of them is enough", dir)
		case err == nil && !slices.Equal(used(t, own), []string{dir}):
			t.Errorf("%s/go.work must use its own module alone: use .", dir)
		}
	}
}

// A module costs those who maintain it, so the top of its go.mod says why it
// is not a part of the library's.
func TestEachModuleSaysWhyItIsOne(t *testing.T) {
	for _, dir := range moduleDirs(t) {
		if dir != "." {
			require.Regexp(t, "^// A module of its own, so that ", string(read(t, "../"+dir+"/go.mod")), dir)
		}
	}
}

// What the library requires is what its own go.mod asks for, also where the
// workspace has higher versions.
func TestScriptsTestWhatEachModuleAsksFor(t *testing.T) {
	scripts, err := filepath.Glob("../scripts/*")
	require.NoError(t, err)
	runsGo := regexp.MustCompile(`(?m)(^|[ (])go (test|vet|run|build|list|get|install|mod) `)
	off := regexp.MustCompile(`(?m)^(\. scripts/modules\.sh|export GOWORK=off)\b`)
	stranger := regexp.MustCompile(`(?m)^unset GOWORK\b`)
	checked := 0
	for _, script := range scripts {
		text := string(read(t, script))
		commands := regexp.MustCompile(`(?m)^ *#.*`).ReplaceAllString(text, "")
		if strings.HasSuffix(script, ".sh") || !runsGo.MatchString(commands) {
			continue
		}
		checked++
		if filepath.Base(script) == "stranger" {
			require.Regexp(t, stranger, text, "scripts/stranger must run go commands as a reader of the README does")
			continue
		}
		if !off.MatchString(text) {
			t.Errorf("%s runs go commands in the workspace: source scripts/modules.sh, which sets GOWORK=off", script)
		}
	}
	require.GreaterOrEqual(t, checked, 10, "the scripts that run go were not found")
}

// Each module has an entry of dependabot.yml.
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
		if u.Ecosystem != "gomod" {
			continue
		}
		for _, dir := range append(u.Directories, u.Directory) {
			if dir != "" {
				named = append(named, path.Join(".", strings.TrimPrefix(dir, "/")))
			}
		}
	}
	require.ElementsMatch(t, moduleDirs(t), named, "dependabot.yml must name the directory of each go.mod once")
}

// Each action of the workflows is pinned by a commit, whose version stands
// beside it.
func TestActionsArePinnedByCommit(t *testing.T) {
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)
	pinned := regexp.MustCompile(`^\S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	uses := regexp.MustCompile(`(?m)^\s*(?:- )?uses: (.+)$`)
	for _, workflow := range workflows {
		text := string(read(t, workflow))
		require.Regexp(t, `(?m)^permissions:\n  contents: read$`, text, "%s: the token must not be able to write", workflow)
		found := uses.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, found, workflow)
		for _, action := range found {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s: %s is not pinned: write a commit, and its version in a comment", workflow, action[1])
			}
		}
	}
}
