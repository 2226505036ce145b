package docs_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are what the Go of the repository declares and uses.
type names struct {
	exports  map[string]map[string]bool // of each package, by its name
	members  map[string]map[string]bool // methods and fields, by the type's name
	public   map[string]bool            // declared where apps can import it
	internal map[string]bool            // declared elsewhere
	selected map[string]bool            // behind a dot
	all      map[string]bool            // identifiers
	words    map[string]bool            // in strings, and in the code of pages
}

// ofOtherLibraries are names that no Go of this repository uses.
var ofOtherLibraries = map[string]bool{
	"RealIP": true, "ProxyHeaders": true, // chi, gorilla
	"UseRawPath": true, "UnescapePathValues": true, // gin
	"newYork": true, // a variable of the reader's
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	quoted     = regexp.MustCompile("`([^`\n]+)`")
	metric     = regexp.MustCompile(`^ratelimit_[a-z_]+$`)
	filePath   = regexp.MustCompile(`^(\.{1,2}/)*[\w-]+/([\w.-]+/)*([\w.-]+\.(go|md|lua|tmpl|yaml|yml|json))?$`)
	expression = regexp.MustCompile(`^\w+(\.\w+)?(\(.*\))?$`)
	selection  = regexp.MustCompile(`\b(\w+)\.(\w+)`)
	exported   = regexp.MustCompile(`^[A-Z]\w*[a-z]\w*$`)
	mixed      = regexp.MustCompile(`^[a-z]+[A-Z]\w*$`)
	word       = regexp.MustCompile(`\w+`)
)

// What pages name in backticks outside of code blocks exists: metrics, paths to
// files, what a package exports, methods and fields of types, and other names
// in expressions of Go. The page about other libraries names theirs too.
func TestNamesInBackticksExist(t *testing.T) {
	n, checked := declared(t), 0
	for _, page := range append(pages(t), "../CONTRIBUTING.md") {
		for _, text := range quoted.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(read(t, page)), ""), -1) {
			if missing := n.missing(text[1], page == "comparison.md"); missing != "" {
				t.Errorf("%s: `%s`: nothing has the name %s", page, text[1], missing)
			}
			checked++
		}
	}
	require.Greater(t, checked, 500, "the premise: the names are found")
}

// missing returns a name in a text in backticks that does not exist.
func (n *names) missing(text string, ofOthers bool) string {
	switch {
	case metric.MatchString(text):
		return unless(n.words[text] || n.words[text+"_count"], text)
	case filePath.MatchString(text):
		_, above := os.Stat(filepath.Join("..", text))
		_, here := os.Stat(text)
		return unless(above == nil || here == nil, text)
	case !expression.MatchString(text):
		return "" // prose, and header fields
	}
	for _, s := range selection.FindAllStringSubmatch(text, -1) {
		owner, name := s[1], s[2]
		exports, members := n.exports[owner], n.members[owner]
		switch {
		case exports[name] || members[name] || n.members[strings.ToUpper(owner[:1])+owner[1:]][name]: // store.Stats of a variable
			text = strings.ReplaceAll(text, s[0], "")
		case ofOtherLibraries[name] || ofOthers && exports == nil:
		case exports != nil && ast.IsExported(name), ast.IsExported(owner) && members != nil && !n.foreign(name):
			return s[0]
		}
	}
	for _, name := range word.FindAllString(text, -1) {
		known := ofOthers || ofOtherLibraries[name] || n.public[name] || n.foreign(name) || n.words[name]
		if exported.MatchString(name) && !known || mixed.MatchString(name) && !known && !n.all[name] {
			return name
		}
	}
	return ""
}

// foreign reports whether Go of the repository uses the name of another module.
func (n *names) foreign(name string) bool {
	return n.selected[name] && !n.internal[name] && !n.public[name]
}

func unless(exists bool, name string) string {
	if exists {
		return ""
	}
	return name
}

func declared(t *testing.T) *names {
	t.Helper()
	n := &names{
		map[string]map[string]bool{}, map[string]map[string]bool{},
		map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{},
	}
	goFiles(t, func(path string, file *ast.File) {
		if path == "docs/names_test.go" {
			return
		}
		of := n.public
		if strings.Contains(path, "internal/") || file.Name.Name == "main" {
			of = n.internal
		}
		for _, decl := range file.Decls {
			n.declare(strings.TrimSuffix(file.Name.Name, "_test"), decl, of)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.Ident:
				n.all[node.Name] = true
			case *ast.SelectorExpr:
				n.selected[node.Sel.Name] = true
			case *ast.KeyValueExpr:
				if key, ok := node.Key.(*ast.Ident); ok {
					n.selected[key.Name] = true // a field in a literal
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(node.Value); err == nil && node.Kind == token.STRING {
					add(n.words, text)
				}
			}
			return true
		})
	})
	for _, page := range pages(t) {
		add(n.words, strings.Join(codeBlock.FindAllString(string(read(t, page)), -1), ""))
	}
	add(n.words, string(read(t, "alerts.yml")))
	return n
}

func add(words map[string]bool, text string) {
	for _, name := range word.FindAllString(text, -1) {
		words[name] = true
	}
}

// declare notes what a declaration of a package declares.
func (n *names) declare(pkg string, decl ast.Decl, of map[string]bool) {
	note := func(in map[string]map[string]bool, owner string, names ...*ast.Ident) {
		if in[owner] == nil {
			in[owner] = map[string]bool{}
		}
		for _, name := range names {
			in[owner][name.Name], of[name.Name] = true, true
		}
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			note(n.exports, pkg, decl.Name)
			return
		}
		owner, _, _ := strings.Cut(strings.TrimPrefix(types.ExprString(decl.Recv.List[0].Type), "*"), "[")
		note(n.members, owner, decl.Name)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				note(n.exports, pkg, spec.Names...)
			case *ast.TypeSpec:
				note(n.exports, pkg, spec.Name)
				for _, field := range fieldsOf(spec.Type) {
					note(n.members, spec.Name.Name, field.Names...)
				}
			}
		}
	}
}

// fieldsOf returns the fields of a struct, or the methods of an interface.
func fieldsOf(kind ast.Expr) []*ast.Field {
	switch kind := kind.(type) {
	case *ast.StructType:
		return kind.Fields.List
	case *ast.InterfaceType:
		return kind.Methods.List
	}
	return nil
}
