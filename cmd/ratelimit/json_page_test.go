package main

import (
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/report"
)

const jsonPage = "../../docs/tools-json.md"

// objects are what commands print with -json, by the command, and a flag if
// that makes another one.
var objects = map[string]output.Object{
	"check": &checks{}, "diff": &differences{}, "get": &gotten{}, "list": &listing{}, "find": &finding{}, "forget": &finding{}, "top": &ranking{},
	"exceptions": &exceptionList{}, "exceptions -replicas": &obedience{}, "history": &changeList{}, "doctor": &diagnosis{}, "replay": &report.Object{},
}

// member is a member of an object, as the page describes it.
type member struct {
	path, kind, about string
	optional          bool // it may be missing
}

// The page is made of the types of what commands print, with their fields'
// comments. So a field that is added is described, or this fails.
func TestTheJSONPageDescribesEveryMember(t *testing.T) {
	text, err := os.ReadFile(jsonPage)
	require.NoError(t, err)
	head, _, found := strings.Cut(string(text), "\n## ")
	require.True(t, found, "the page has a section for each command")
	var page strings.Builder
	page.WriteString(head)
	c := comments{read: make(map[string]map[string]string)}
	for _, command := range table.Commands {
		flags := flag.NewFlagSet(command.Name, flag.ContinueOnError)
		command.New(flags)
		require.Equal(t, flags.Lookup("json") != nil, objects[command.Name] != nil, "%s has -json, and an object", command.Name)
		for _, title := range slices.Sorted(maps.Keys(objects)) {
			if title == command.Name || strings.HasPrefix(title, command.Name+" ") {
				c.section(t, &page, title)
			}
		}
	}
	if *write {
		require.NoError(t, os.WriteFile(jsonPage, []byte(page.String()), 0o644))
		return
	}
	assert.Equal(t, page.String(), string(text), "go test -run JSONPage -write . corrects the page")
}

// section writes the section of an object.
func (c *comments) section(t *testing.T, page *strings.Builder, title string) {
	t.Helper()
	fmt.Fprintf(page, "\n## %s\n\n| member | is | |\n| --- | --- | --- |\n", title)
	for _, m := range c.members(t, "", reflect.TypeOf(objects[title]).Elem()) {
		if m.optional {
			m.kind += ", or missing"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s |\n", m.path, m.kind, m.about)
	}
}

// title is that of the section about what a command line prints.
func title(args []string) string {
	for title := range objects {
		command, flag, _ := strings.Cut(title, " ")
		if command == args[0] && flag != "" && slices.Contains(args, flag) {
			return title
		}
	}
	return args[0]
}

// comments are those of fields, by directory and by Type.Field.
type comments struct{ read map[string]map[string]string }

// of returns the comment of a field, which must have one: it is what the page
// says.
func (c *comments) of(t *testing.T, in reflect.Type, field string) string {
	t.Helper()
	_, dir, ok := strings.Cut(in.PkgPath(), "tokenbucket-go/ratelimit/")
	require.True(t, ok, "%v is not of this repository", in)
	if c.read[dir] == nil {
		c.read[dir] = make(map[string]string)
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				spec, _ := n.(*ast.TypeSpec)
				if spec == nil {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					c.note(dir, spec.Name.Name, s)
				}
				return true
			})
		}
	}
	about := c.read[dir][in.Name()+"."+field]
	require.NotEmpty(t, about, "%v.%s needs a comment that says what it is: it stands in %s", in, field, jsonPage)
	return about
}

func (c *comments) note(dir, name string, s *ast.StructType) {
	for _, f := range s.Fields.List {
		for _, id := range f.Names {
			text := f.Comment.Text()
			if text == "" {
				text = f.Doc.Text()
			}
			c.read[dir][name+"."+id.Name] = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
		}
	}
}

// members returns the members of a struct and of what these have, in order.
// Those of an embedded struct are its own, unless it has one of this name
// itself.
func (c *comments) members(t *testing.T, prefix string, in reflect.Type) (list []member) {
	t.Helper()
	own := make(map[string]bool)
	for i := range in.NumField() {
		name, _, _ := strings.Cut(in.Field(i).Tag.Get("json"), ",")
		own[prefix+name] = true
	}
	for i := range in.NumField() {
		f := in.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			for _, m := range c.members(t, prefix, of) {
				if !own[prefix+firstName.FindString(strings.TrimPrefix(m.path, prefix))] {
					list = append(list, m)
				}
			}
			continue
		case !f.IsExported(), name == "-":
			continue
		}
		require.NotEmpty(t, name, "%v.%s has a name in JSON", in, f.Name)
		kind, path, inner := kindOf(t, f.Type)
		list = append(list, member{prefix + name + path, kind, c.of(t, in, f.Name), strings.Contains(options, "omit")})
		if inner != nil {
			list = append(list, c.members(t, prefix+name+path+".", inner)...)
		}
	}
	return list
}

// kindOf returns what a type is in JSON, what follows its name in the path of
// what it has, and the struct of that, if it is one.
func kindOf(t *testing.T, in reflect.Type) (kind, path string, inner reflect.Type) {
	t.Helper()
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	if in == reflect.TypeFor[time.Time]() {
		return "time", "", nil
	}
	if in.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || in.Kind() == reflect.String {
		return "text", "", nil
	}
	require.False(t, in.Implements(reflect.TypeFor[json.Marshaler]()), "%v writes itself", in)
	switch in.Kind() {
	case reflect.Bool:
		return "boolean", "", nil
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "number", "", nil
	case reflect.Struct:
		return "object", "", in
	case reflect.Slice, reflect.Array:
		if in.Elem().Kind() == reflect.Uint8 && in.Kind() == reflect.Slice {
			return "base64", "", nil
		}
		kind, path, inner = kindOf(t, in.Elem())
		return "list of " + plural(kind), "[]" + path, inner
	case reflect.Map:
		kind, path, inner = kindOf(t, in.Elem())
		return "object of " + plural(kind), ".*" + path, inner
	}
	t.Fatalf("%v is not described in JSON", in)
	return "", "", nil
}

func plural(kind string) string {
	first, rest, _ := strings.Cut(kind, " of ")
	if first != "base64" && first != "text" {
		first += "s"
	}
	if first == "text" {
		first = "texts"
	}
	if rest != "" {
		rest = " of " + rest
	}
	return first + rest
}

// firstName is the begin of a path.
var firstName = regexp.MustCompile(`^[^.\[]+`)

var memberRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|")

// here is the directory of the package: tests change into others.
var here, _ = os.Getwd()

// described are the members of a command's object, by the page.
func described(t *testing.T, command string) (list []member) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(here, jsonPage))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## "+command+"\n")
	require.True(t, found, "%s describes %s", jsonPage, command)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range memberRow.FindAllStringSubmatch(section, -1) {
		kind, optional := strings.CutSuffix(row[2], ", or missing")
		list = append(list, member{path: row[1], kind: kind, optional: optional})
	}
	return list
}

// checkJSON fails the test if what a command printed is not what the page says:
// each object has the members that are never missing, no others than those of
// the page, and of these kinds. It returns the paths that were printed.
func checkJSON(t *testing.T, command, printed string) (paths []string) {
	t.Helper()
	members := described(t, command)
	d := json.NewDecoder(strings.NewReader(printed))
	for d.More() {
		var v any
		require.NoError(t, d.Decode(&v), printed)
		object, ok := v.(map[string]any)
		require.True(t, ok, "%s prints an object: %s", command, printed)
		require.InEpsilon(t, output.Version, object["version"], 0, printed)
		checkObject(t, command, members, "", object, &paths)
	}
	return paths
}

func checkObject(t *testing.T, command string, members []member, prefix string, object map[string]any, paths *[]string) {
	t.Helper()
	known := make(map[string]bool)
	for _, m := range members {
		rest, ok := strings.CutPrefix(m.path, prefix)
		name := firstName.FindString(rest)
		if !ok || known[name] || name == "" {
			continue
		}
		known[name] = true
		value, has := object[name]
		if !has {
			assert.True(t, m.optional, "%s: %s is missing", command, m.path)
			continue
		}
		*paths = append(*paths, m.path)
		checkValue(t, command, members, prefix+name, m.kind, value, paths)
	}
	for name := range object {
		assert.True(t, known[name], "%s prints %s%s, which %s does not describe", command, prefix, name, jsonPage)
	}
}

func checkValue(t *testing.T, command string, members []member, path, kind string, value any, paths *[]string) {
	t.Helper()
	ok := false
	outer, inner, _ := strings.Cut(kind, " of ")
	inner = strings.TrimSuffix(strings.Replace(inner, "s of ", " of ", 1), "s")
	switch outer {
	case "text", "base64":
		_, ok = value.(string)
	case "number":
		_, ok = value.(float64)
	case "boolean":
		_, ok = value.(bool)
	case "time":
		text, _ := value.(string)
		_, err := time.Parse(time.RFC3339Nano, text)
		ok = err == nil
	case "list":
		var list []any
		list, ok = value.([]any)
		for _, item := range list {
			checkValue(t, command, members, path+"[]", inner, item, paths)
		}
	case "object":
		var object map[string]any
		if object, ok = value.(map[string]any); !ok {
			break
		}
		if inner == "" {
			checkObject(t, command, members, path+".", object, paths)
			break
		}
		for _, item := range object {
			checkValue(t, command, members, path+".*", inner, item, paths)
		}
	}
	assert.True(t, ok, "%s: %s is %s, and not %v", command, path, kind, value)
}

// isJSON reports whether a command line asks for JSON.
func isJSON(args []string) bool { return slices.Contains(args, "-json") }
