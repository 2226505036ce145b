package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
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

// The commands of examples/README.md print what the page shows.
func TestTheGinExampleAnswersAsItsPageShows(t *testing.T) {
	text := string(read(t, "../examples/README.md"))
	_, commands, found := strings.Cut(text, "go run ./examples/gin &\n")
	require.True(t, found)
	commands, rest, _ := strings.Cut(commands, "```")
	want := regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindStringSubmatch(rest)
	require.NotNil(t, want)
	addr := freeAddr(t)
	program := command(t, "example_gin", addr)
	program.Env = append(program.Env, "ADDR="+addr, "ADMIN_ADDR=localhost:0")
	serve(t, program, addr)
	require.Equal(t, strings.TrimSpace(want[1]), printed(t, strings.ReplaceAll(commands, "localhost:8080", addr)))
}

// What examples have in common has one text, so that who knows one knows all.
func TestExamplesHaveOneFrame(t *testing.T) {
	// opening is how they open their store, and serving how they serve.
	opening := regexp.MustCompile(`(?ms)^\tctx, stop := signal\.NotifyContext.*?^\t}\n`)
	serving := regexp.MustCompile(`(?ms)^// newServer bounds.*`)
	prefix := regexp.MustCompile(`WithPrefix\("[a-z0-9-]+-example:"\)`)
	gin := string(read(t, "../examples/gin/main.go"))
	files, err := filepath.Glob("../examples/*/main.go")
	require.NoError(t, err)
	extra, err := filepath.Glob("../examples/extra/*/main.go")
	require.NoError(t, err)
	others := map[string]string{"demo": "", "jobs": "", "fiber": "fasthttp", "fiber-v3": "fasthttp", "grpc": "gRPC has a server of its own"}
	for _, file := range append(files, extra...) {
		name, text := filepath.Base(filepath.Dir(file)), string(read(t, file))
		if name == "demo" {
			continue
		}
		require.Regexp(t, prefix, text, file)
		require.Equal(t, prefix.ReplaceAllString(opening.FindString(gin), ""), prefix.ReplaceAllString(opening.FindString(text), ""), file)
		if _, other := others[name]; !other {
			require.Equal(t, serving.FindString(gin), serving.FindString(text), file)
		}
	}
	for v1, v2 := range map[string]string{"echo": "echo-v5", "fiber": "fiber-v3"} {
		require.NotEqual(t, v1, v2)
		one, two := read(t, "../examples/"+v1+"/main.go"), read(t, "../examples/"+v2+"/main.go")
		require.Less(t, different(string(one), string(two)), 30, "%s is %s but for types and imports", v2, v1)
	}
}

// different counts the lines of b that a has not.
func different(a, b string) (n int) {
	lines := strings.Split(a, "\n")
	for line := range strings.SplitSeq(b, "\n") {
		if !slices.Contains(lines, line) {
			n++
		}
	}
	return n
}

// Each program in examples is on their page, and each link leads to a file.
func TestExamplesPageNamesEachExample(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		file, _, _ := strings.Cut(link[1], "#")
		require.FileExists(t, filepath.Join("..", "examples", file))
	}
	for _, of := range []string{"../examples/*/*.go", "../examples/extra/*/*.go"} {
		files, err := filepath.Glob(of)
		require.NoError(t, err)
		require.NotEmpty(t, files, of)
		for _, file := range files {
			require.Contains(t, string(text), "["+filepath.Base(filepath.Dir(file))+"](", "examples/README.md does not list it")
		}
	}
}
