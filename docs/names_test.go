package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vocabulary is what the module's Go declares and uses.
type vocabulary struct {
	packages map[string]map[string]bool // what each package exports, its tests too, by the package's name
	members  map[string]map[string]bool // methods and fields of exported types, by the type's name
	public   map[string]bool            // exported names that an importer can use
	foreign  map[string]bool            // names after a dot that nothing in this module declares
	private  map[string]bool            // all other identifiers
	literals map[string]bool            // words in string literals
}

// TestNamesInBackticksExist checks what stands in backticks outside of code
// blocks, if it is a Go expression:
//   - pkg.Name: the package of this module exports it;
//   - Type.Name: the type of this module has this method or field, unless
//     another library has a type of that name;
//   - Name and x.Name: this module or a library that it uses has an exported
//     name like this, or a string of it, such as a header field;
//   - mixedCase: an identifier of this module;
//
// and ratelimit_…, which must be the metric of a string, and paths to files.
// Pages about other libraries name what only these have.
func TestNamesInBackticksExist(t *testing.T) {
	n, checked := declaredNames(t), 0
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		ofOthers := page == "comparison.md"
		for _, text := range inBackticks(string(read(t, page))) {
			for _, mistake := range n.mistakes(text, ofOthers) {
				t.Errorf("%s: `%s`: %s", page, text, mistake)
			}
			checked++
		}
	}
	require.Greater(t, checked, 1000)
}

func TestStaleNamesAreFound(t *testing.T) {
	n := declaredNames(t)
	for text, stale := range map[string]bool{
		"Settles(v)": true, "Kept": true, "core.PerFortnight(1)": true, "Limit.MaxOut": true, "res.Vanish(ctx)": true, "errorStatuses": true,
		"ratelimit_gone_total": true, "core/nothing.go": true, "core/gone/": true, "adapter.Exchange": true,
		"WantsDone(v)": false, "core.PerHour(5)": false, "Limit.MaxIn(d)": false, "res.Release(ctx)": false, "errorStatus": false,
		"Retry-After": false, "GET": false, "429": false, "a key": false, "ratelimit_decisions_total": false, "core/limit.go": false, "core/internal/": false,
	} {
		assert.Equal(t, stale, len(n.mistakes(text, false)) > 0, text)
	}
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	quoted    = regexp.MustCompile("`([^`\n]+)`")
	metric    = regexp.MustCompile(`^ratelimit_[a-z_]+$`)
	filePath  = regexp.MustCompile(`^(\.{1,2}/)*[\w-]+/([\w.-]+/)*([\w.-]+\.(go|md|lua|tmpl|yaml|yml|json))?$`)
	exported  = regexp.MustCompile(`^[A-Z]\w*[a-z]\w*$`)
	word      = regexp.MustCompile(`\w+`)
	mixed     = regexp.MustCompile(`^[a-z]+[A-Z]\w*$`)
)

// ofOtherLibraries are names that no Go of this module uses.
var ofOtherLibraries = map[string]bool{
	"RealIP": true, "middleware.RealIP": true, "middleware.ClientIPFromXFF": true, // chi, echo
	"UseRawPath": true, "UnescapePathValues": true, // gin
	"ProxyHeaders":  true, // gorilla
	"TextMarshaler": true, // encoding
	"newYork":       true, // a variable of the reader's
}

func inBackticks(page string) (texts []string) {
	for _, found := range quoted.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		texts = append(texts, found[1])
	}
	return texts
}

// mistakes returns what is stale in a text in backticks. ofOthers says that its page names what other libraries have.
func (n *vocabulary) mistakes(text string, ofOthers bool) (found []string) {
	switch {
	case metric.MatchString(text):
		if !n.literals[text] && !n.literals[text+"_count"] {
			found = append(found, "no such metric")
		}
		return found
	case filePath.MatchString(text):
		if !exists(text) {
			found = append(found, "no such file")
		}
		return found
	}
	e, err := parser.ParseExpr(strings.NewReplacer("(…)", "()", ", …", "", "...", "", "…", "").Replace(text))
	if err != nil {
		return nil
	}
	switch e.(type) {
	case *ast.Ident, *ast.SelectorExpr, *ast.CallExpr:
	default:
		return nil // prose, and header fields: Retry-After is a difference
	}
	ast.Inspect(e, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.SelectorExpr:
			if owner, ok := node.X.(*ast.Ident); ok {
				found = append(found, n.selected(owner.Name, node.Sel.Name, ofOthers)...)
				return false
			}
		case *ast.Ident:
			found = append(found, n.named(node.Name, ofOthers)...)
		}
		return true
	})
	return found
}

func (n *vocabulary) selected(owner, name string, ofOthers bool) []string {
	switch {
	case ofOtherLibraries[owner+"."+name] || n.members[strings.ToUpper(owner[:1])+owner[1:]][name]: // store.Stats of a variable
	case n.packages[owner] != nil:
		if ast.IsExported(name) && !n.packages[owner][name] {
			return []string{"package " + owner + " has no " + name}
		}
	case ast.IsExported(owner) && n.members[owner] != nil && !ofOthers:
		if !n.members[owner][name] && !n.foreign[name] {
			return []string{owner + " has no " + name}
		}
	default:
		return n.named(name, ofOthers)
	}
	return nil
}

func (n *vocabulary) named(name string, ofOthers bool) []string {
	known := ofOtherLibraries[name] || n.public[name] || n.foreign[name] || n.literals[name]
	if !ofOthers && (exported.MatchString(name) && !known || mixed.MatchString(name) && !known && !n.private[name]) {
		return []string{"nothing has the name " + name}
	}
	return nil
}

// exists reports whether the repository has a file, as seen from its root, from the docs, or in any directory.
func exists(path string) bool {
	for _, from := range []string{"..", "."} {
		if _, err := os.Stat(filepath.Join(from, path)); err == nil {
			return true
		}
	}
	return false
}

// declaredNames reads all Go of the repository.
func declaredNames(t *testing.T) *vocabulary {
	t.Helper()
	n := &vocabulary{map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	used, inside := map[string]bool{}, map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || d.Name() == "names_test.go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if names := n.declare(file); strings.Contains(filepath.ToSlash(path), "/internal/") || file.Name.Name == "main" {
			addTo(inside, names)
		} else {
			addTo(n.public, names)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Ident:
				n.private[node.Name] = true
			case *ast.SelectorExpr:
				used[node.Sel.Name] = true
			case *ast.KeyValueExpr:
				if key, ok := node.Key.(*ast.Ident); ok {
					used[key.Name] = true
				}
			case *ast.BasicLit:
				n.read(node)
			}
			return true
		})
		return nil
	}))
	for _, pattern := range []string{"*.md", "*.yml", "*.yaml"} { // what code blocks of pages declare, and alerts
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			text := string(read(t, path))
			if strings.HasSuffix(path, ".md") {
				text = strings.Join(codeBlock.FindAllString(text, -1), "")
			}
			addTo(n.literals, word.FindAllString(text, -1))
		}
	}
	for name := range used {
		n.foreign[name] = !inside[name] && !n.public[name]
	}
	return n
}

func addTo(set map[string]bool, names []string) {
	for _, name := range names {
		set[name] = true
	}
}

// declare notes what a file declares, and returns the names of it.
func (n *vocabulary) declare(file *ast.File) (list []string) {
	pkg := strings.TrimSuffix(file.Name.Name, "_test")
	if n.packages[pkg] == nil {
		n.packages[pkg] = map[string]bool{}
	}
	add := func(names ...*ast.Ident) {
		for _, name := range names {
			list = append(list, name.Name)
			n.packages[pkg][name.Name] = true
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				add(decl.Name)
				continue
			}
			list = append(list, decl.Name.Name)
			n.member(receiver(decl.Recv.List[0].Type), decl.Name)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					add(spec.Names...)
				case *ast.TypeSpec:
					add(spec.Name)
					list = append(list, n.fields(spec)...)
				}
			}
		}
	}
	return list
}

// fields notes the fields of a struct, and the methods of an interface.
func (n *vocabulary) fields(spec *ast.TypeSpec) (list []string) {
	var fields *ast.FieldList
	switch kind := spec.Type.(type) {
	case *ast.StructType:
		fields = kind.Fields
	case *ast.InterfaceType:
		fields = kind.Methods
	default:
		return nil
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			n.member(spec.Name.Name, name)
			list = append(list, name.Name)
		}
	}
	return list
}

func (n *vocabulary) member(owner string, name *ast.Ident) {
	if n.members[owner] == nil {
		n.members[owner] = map[string]bool{}
	}
	n.members[owner][name.Name] = true
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// read notes the words of a string.
func (n *vocabulary) read(literal *ast.BasicLit) {
	if text, err := strconv.Unquote(literal.Value); err == nil && literal.Kind == token.STRING {
		for _, word := range word.FindAllString(text, -1) {
			n.literals[word] = true
		}
	}
}
