package docs_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// notImported matches directories whose packages nobody imports.
var notImported = regexp.MustCompile(`(^|/)(internal|testdata|examples|benchmarks|docs|scripts|\.\w+)(/|$)`)

// publicPackages returns the directories of packages that apps can import, in
// every module of the repository.
func publicPackages(t *testing.T) (dirs []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(".."), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && notImported.MatchString(file) {
			return fs.SkipDir
		}
		if dir := path.Dir(file); path.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		return nil
	}))
	return dirs
}

// ofApps are the packages that apps call: there each type has an example under
// its own name.
var ofApps = []string{"core", "core/redisstore", "core/policyfile", "core/storestats", "ginlimit", "echolimit", "chilimit", "fiberlimit", "httplimit", "adminlimit", "clientlimit"}

// noExample are types that a reader of examples does not write.
var noExample = map[string]string{
	"core/store.Class":               "for package core",
	"core/store.Limiters":            "for package core",
	"core/store.ExceptionNote":       "tools read it",
	"adminlimit.Config":              "the package's example has it",
	"adminlimit.Bucket":              "a part of State",
	"adminlimit.Level":               "a part of State",
	"adminlimit.Denials":             "a part of State, and what Top reports",
	"adminlimit.DeniedKey":           "a part of State, and what Top reports",
	"adminlimit.Policy":              "a part of State",
	"adminlimit.Exception":           "a part of State",
	"adminlimit.Redis":               "a part of State",
	"core/adapter.Peer":              "saves time only: the adapters show it",
	"core/adapter.Pool":              "saves an allocation only: the adapters show it",
	"core/adapter/adaptertest.Route": "the suite makes it",
	"core/adapter/adaptertest.Reply": "the suite makes it",
}

// Every exported type is in a runnable example of its package, or in a program
// of examples: by its name, or as what a function returns. Every package that
// apps call has an example of each type.
func TestEveryTypeHasAnExample(t *testing.T) {
	packages := publicPackages(t)
	require.Subset(t, packages, append(ofApps, "echolimit/v5", "promlimit"))
	programs := map[string]bool{} // names as adaptertest.Kit
	require.NoError(t, filepath.WalkDir("../examples", func(file string, _ fs.DirEntry, err error) error {
		if filepath.Ext(file) == ".go" {
			names(parse(t, file), programs)
		}
		return err
	}))
	for _, dir := range packages {
		paths, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		var types []string
		returnedBy := map[string][]string{}
		examples, shown := map[string]bool{}, map[string]bool{}
		pkg := ""
		for _, path := range paths {
			file := parse(t, path)
			if !strings.HasSuffix(path, "_test.go") {
				pkg = file.Name.Name
				types = append(types, exportedTypes(file, slices.Contains(ofApps, dir))...)
				results(file, returnedBy)
				continue
			}
			for _, e := range doc.Examples(file) {
				examples[e.Name] = true
				names(file, shown) // with what stands beside it
			}
		}
		isShown := func(name string) bool {
			if !strings.HasPrefix(name, ".") {
				name = pkg + "." + name
			}
			return shown[name] || programs[name]
		}
		if !examples[""] && slices.Contains(ofApps, dir) {
			t.Errorf("package %s has no Example", dir)
		}
		for _, name := range types {
			switch {
			case examples[name] || noExample[dir+"."+name] != "":
			case slices.Contains(ofApps, dir):
				t.Errorf("%s.%s has no example: write Example%s", dir, name, name)
			case !isShown(name) && !slices.ContainsFunc(returnedBy[name], isShown):
				t.Errorf("%s.%s is in no example: write Example%s", dir, name, name)
			}
		}
	}
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	require.NoError(t, err)
	return file
}

// names adds what a file uses of packages, as core.Limit, and of values, as
// .Allow.
func names(file *ast.File, used map[string]bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			used["."+s.Sel.Name] = true // perhaps a method
			if x, ok := s.X.(*ast.Ident); ok {
				used[x.Name+"."+s.Sel.Name] = true
			}
		}
		return true
	})
}

// results adds the functions and methods of a file to each type that they
// return, and constants to theirs.
func results(file *ast.File, by map[string][]string) {
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			constants(g, by)
		}
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Type.Results == nil {
			continue
		}
		function := f.Name.Name
		if f.Recv != nil {
			function = "." + function
		}
		ast.Inspect(f.Type.Results, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				by[name.Name] = append(by[name.Name], function)
			}
			return true
		})
	}
}

func constants(g *ast.GenDecl, by map[string][]string) {
	of := ""
	for _, spec := range g.Specs {
		v := spec.(*ast.ValueSpec)
		if kind, ok := v.Type.(*ast.Ident); ok {
			of = kind.Name // also of those below that have neither type nor value
		} else if len(v.Values) > 0 {
			of = ""
		}
		for _, name := range v.Names {
			if of != "" {
				by[of] = append(by[of], name.Name)
			}
		}
	}
}

// exportedTypes returns the names of types that a file declares for others,
// with aliases if these count too.
func exportedTypes(file *ast.File, aliases bool) (names []string) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			if s := spec.(*ast.TypeSpec); s.Name.IsExported() && (aliases || !s.Assign.IsValid()) {
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}

// The example on examples/README.md answers six requests with the statuses that
// the page shows.
func TestTheGinExampleAnswersAsItsPageShows(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	want := regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindStringSubmatch(string(text))
	require.NotNil(t, want)
	addr := freeAddr(t)
	serve(t, command(t, "example_gin", "", "-addr", addr), addr)

	var got strings.Builder
	for range strings.Count(want[1], "\n") {
		resp, err := http.Get("http://" + addr + "/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		fmt.Fprintln(&got, resp.StatusCode)
	}
	require.Equal(t, want[1], got.String())
}

// Each program in examples is on their page, and each link leads to a file.
func TestExamplesPageNamesEachExample(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		require.FileExists(t, filepath.Join("..", "examples", link[1]))
	}
	for _, of := range []string{"../examples/*/*.go", "../examples/extra/*/*.go"} {
		files, err := filepath.Glob(of)
		require.NoError(t, err)
		require.NotEmpty(t, files, of)
		for _, file := range files {
			require.Contains(t, string(text), "| ["+filepath.Base(filepath.Dir(file))+"](", "examples/README.md does not list it")
		}
	}
}
