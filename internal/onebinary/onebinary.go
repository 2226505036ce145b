// Package onebinary compiles many programs into one binary, for tests of
// programs that pages show. To link a program takes longer than to compile it,
// so each becomes a package, and one program calls the one that is asked for. It
// is a package because the tests of docs and of the demo use it.
//
// The sources stay out of the tree: the go command reads them through an
// overlay. They don't differ from run to run, so a second build takes them from
// the build cache.
package onebinary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Set is what to compile. All of it appears to be below a directory of the
// module.
type Set struct {
	dir, imports string            // the directory, and its import path
	files        map[string]string // by path below dir
	programs     []string
	packages     []string
}

// New returns an empty set. Its directory must not exist, and must be below the
// working directory, whose import path is at.
func New(at, dir string) *Set {
	return &Set{dir: dir, imports: path.Join(at, dir), files: map[string]string{}}
}

// File adds a file to a package of the set.
func (s *Set) File(pkg, name, source string) {
	if !slices.Contains(s.packages, pkg) && !strings.HasSuffix(name, "_test.go") {
		s.packages = append(s.packages, pkg)
	}
	s.files[path.Join(pkg, name)] = source
}

var (
	clause   = regexp.MustCompile(`(?m)^package main$`)
	function = regexp.MustCompile(`(?m)^func main\(\)`)
)

// Program adds a program of one file, whose package becomes name.
func (s *Set) Program(name, source string) {
	s.programs = append(s.programs, name)
	s.File(name, "main.go", function.ReplaceAllString(clause.ReplaceAllString(source, "package "+name), "func Main()"))
}

// Build compiles the set to the file out. The environment variable PROGRAM
// tells the binary which program to be.
func (s *Set) Build(out string) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "package main\n\nimport (\n\t\"os\"\n")
	for _, pkg := range slices.Sorted(slices.Values(s.packages)) {
		name := "_"
		if slices.Contains(s.programs, pkg) {
			name = pkg
		}
		fmt.Fprintf(&text, "\t%s %q\n", name, path.Join(s.imports, pkg))
	}
	fmt.Fprintf(&text, ")\n\nfunc main() {\n\tmap[string]func(){\n")
	for _, name := range s.programs {
		fmt.Fprintf(&text, "\t\t%q: %s.Main,\n", name, name)
	}
	fmt.Fprintf(&text, "\t}[os.Getenv(\"PROGRAM\")]()\n}\n")
	s.files["main.go"] = text.String()
	return s.run("build", ".", out)
}

// BuildTests compiles the tests of one package of the set to the file out. vet
// would look for the sources in the tree.
func (s *Set) BuildTests(pkg, out string) error { return s.run("test", pkg, out, "-c", "-vet=off") }

// run has the go command do what it is told with a package of the set.
func (s *Set) run(command, pkg, out string, flags ...string) error {
	temp, err := os.MkdirTemp("", "onebinary")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	replace := map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(s.files)) {
		file := filepath.Join(temp, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(file, []byte(s.files[name]), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(dir, filepath.FromSlash(name))] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	file := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	args := append([]string{command}, flags...)
	args = append(args, "-o", out, "-overlay", file, "./"+path.Join(s.dir, pkg))
	if said, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return nil
}
