// Command packagemap writes the table of packages in CONTRIBUTING.md, from the
// first sentences of their comments.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:generate go run .

const (
	root   = "../.." // the top of the repository, seen from this package
	page   = root + "/CONTRIBUTING.md"
	module = "github.com/tokenbucket-go/ratelimit/"

	begin = "<!-- packages: written by go generate ./internal/packagemap -->\n"
	end   = "<!-- end of packages -->\n"
)

func main() {
	if err := write(); err != nil {
		log.Fatal(err)
	}
}

func write() error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	filled, err := fill(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(filled), 0o600)
}

// fill returns text with the table between its markers.
func fill(text string) (string, error) {
	before, rest, began := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !began || !ended {
		return "", fmt.Errorf("%s has no lines %q and %q", page, begin, end)
	}
	packages, err := read(os.DirFS(root))
	if err != nil {
		return "", err
	}
	return before + begin + table(packages) + end + after, nil
}

// pkg is a package of the repository.
type pkg struct {
	sentence string              // the first of its comment, without "Package name"
	imports  map[string]struct{} // directories of the packages that it imports, without those of its tests
}

// read returns all packages by their directories, but for programs to copy and
// to measure with, which have lists of their own.
func read(repository fs.FS) (map[string]pkg, error) {
	packages := make(map[string]pkg)
	var mistakes []error
	err := fs.WalkDir(repository, ".", func(dir string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil || !d.IsDir():
			return err
		case dir == "examples", dir == "benchmarks", name == "testdata", strings.HasPrefix(name, "_"), strings.HasPrefix(name, ".") && dir != ".":
			return fs.SkipDir
		}
		p, found, err := readPackage(repository, dir)
		if err != nil {
			mistakes = append(mistakes, err)
		}
		if found {
			packages[dir] = p
		}
		return nil
	})
	return packages, errors.Join(append(mistakes, err)...)
}

// readPackage reads the package in a directory, if there is one. Tests say what
// a package of tests alone is.
func readPackage(repository fs.FS, dir string) (p pkg, found bool, err error) {
	names, err := fs.Glob(repository, path.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		return pkg{}, false, err
	}
	p.imports = make(map[string]struct{})
	sources := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(sources) == 0 {
		sources = names
	}
	comments := 0
	for _, name := range sources {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return pkg{}, false, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return pkg{}, false, err
		}
		if file.Doc != nil {
			p.sentence = sentence(file.Doc.Text())
			comments++
		}
		for _, i := range file.Imports {
			to, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return pkg{}, false, err
			}
			if to, ours := strings.CutPrefix(to, module); ours && to != dir && !strings.HasSuffix(name, "_test.go") {
				p.imports[to] = struct{}{}
			}
		}
	}
	if comments != 1 || p.sentence == "" {
		return pkg{}, false, fmt.Errorf("%s has %d package comments: write one, in one of its files, which begins with what the package is or does", dir, comments)
	}
	return p, true, nil
}

// sentence returns the first sentence of a package comment, as a cell of the
// table: up to a colon, without the package's name, which the row has, and
// without links.
func sentence(comment string) string {
	first, _, _ := strings.Cut(new(doc.Package).Synopsis(comment), ": ")
	first = strings.TrimRight(first, ".:")
	for _, kind := range []string{"Package ", "Command "} {
		if rest, ok := strings.CutPrefix(first, kind); ok {
			_, first, _ = strings.Cut(rest, " ")
		}
	}
	return strings.NewReplacer("[", "", "]", "", "|", `\|`).Replace(first)
}

// table returns the rows of packages in the order of imports: a package stands
// above all those that it imports. Among those that could be next, one near the
// last row comes first.
func table(packages map[string]pkg) string {
	importers := make(map[string]int)
	for _, p := range packages {
		for to := range p.imports {
			importers[to]++
		}
	}
	var rows strings.Builder
	rows.WriteString("| package | what it is or does |\n| --- | --- |\n")
	last := ""
	for left := slices.Sorted(maps.Keys(packages)); len(left) > 0; {
		free := slices.DeleteFunc(slices.Clone(left), func(dir string) bool { return importers[dir] > 0 })
		last = slices.MinFunc(free, func(a, b string) int {
			return cmp.Or(cmp.Compare(common(b, last), common(a, last)), cmp.Compare(a, b))
		})
		for to := range packages[last].imports {
			importers[to]--
		}
		left = slices.DeleteFunc(left, func(dir string) bool { return dir == last })
		fmt.Fprintf(&rows, "| `%s/` | %s |\n", last, packages[last].sentence)
	}
	return rows.String()
}

// common is how many leading directories two paths share.
func common(a, b string) int {
	as, bs := strings.Split(a, "/"), strings.Split(b, "/")
	n := 0
	for n < min(len(as), len(bs)) && as[n] == bs[n] {
		n++
	}
	return n
}
