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

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/report"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

const jsonFile = "json.txt"

// objects are what commands print with -json, by the command, and a flag if
// that makes another one.
var objects = map[string]output.Object{
	"check": &checks{}, "diff": &differences{}, "get": &gotten{}, "list": &listing{}, "find": &finding{}, "forget": &finding{}, "top": &ranking{},
	"exceptions": &exceptionList{}, "exceptions -replicas": &obedience{}, "history": &changeList{}, "doctor": &diagnosis{}, "replay": &report.Object{},
}

// member is a member of an object.
type member struct {
	path, kind string
	optional   bool // it may be missing
	in         reflect.Type
	field      string // of in, whose comment says what the member is
}

// The text of help json is made of the types of what commands print, with their
// fields' comments. So a field that is added is described, or this fails.
func TestHelpDescribesEveryMemberOfJSON(t *testing.T) {
	head, _, found := strings.Cut(jsonText, "\n## ")
	require.True(t, found, "the text has a section for each command")
	var text strings.Builder
	text.WriteString(head)
	c := comments{read: make(map[string]map[string]string)}
	for _, command := range table.Commands {
		flags := flag.NewFlagSet(command.Name, flag.ContinueOnError)
		command.New(flags)
		require.Equal(t, flags.Lookup("json") != nil, objects[command.Name] != nil, "%s has -json, and an object", command.Name)
		for _, title := range slices.Sorted(maps.Keys(objects)) {
			if title == command.Name || strings.HasPrefix(title, command.Name+" ") {
				c.section(t, &text, title)
			}
		}
	}
	if *write {
		require.NoError(t, os.WriteFile(jsonFile, []byte(text.String()), 0o644))
		return
	}
	assert.Equal(t, text.String(), jsonText, "go test -run MemberOfJSON -write . corrects %s", jsonFile)
}

// help json prints the whole text: the introduction with the names of the
// commands, and for each of these its sections.
func TestHelpPrintsTheMembersOfJSON(t *testing.T) {
	words := func(text string) []string { return strings.Fields(text) }
	head, errs, code := run(t, "", "help", "json")
	require.Equal(t, cli.OK, code, errs)
	printed, names, found := strings.Cut(head, "ratelimit help json COMMAND")
	require.True(t, found, head)
	_, names, _ = strings.Cut(names, ": ")
	for _, name := range words(strings.NewReplacer(",", " ", ".", " ").Replace(names)) {
		members, errs, code := run(t, "", "help", "json", name)
		require.Equal(t, cli.OK, code, errs)
		printed += members
	}
	require.Equal(t, words(strings.ReplaceAll(jsonText, "\n## ", "\n")), words(printed))
	for name, says := range map[string]string{"key": "key has no -json", "lsit": "did you mean list?"} {
		_, errs, code := run(t, "", "help", "json", name)
		assert.Equal(t, cli.Misused, code)
		assert.Contains(t, errs, says)
	}
}

// section writes the section of an object.
func (c *comments) section(t *testing.T, text *strings.Builder, title string) {
	t.Helper()
	fmt.Fprintf(text, "\n## %s -json\n", title)
	for _, m := range members(t, "", reflect.TypeOf(objects[title]).Elem()) {
		if m.optional {
			m.kind += ", may be missing"
		}
		fmt.Fprintf(text, "  %s  %s\n%s\n", m.path, m.kind, show.Wrap("        "+c.of(t, m.in, m.field), 80, 8))
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

// of returns the comment of a field, which must have one: it is what help json
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
	require.NotEmpty(t, about, "%v.%s needs a comment that says what it is: it stands in %s", in, field, jsonFile)
	return about
}

func (c *comments) note(dir, name string, s *ast.StructType) {
	for _, f := range s.Fields.List {
		for _, id := range f.Names {
			text := f.Comment.Text()
			if text == "" {
				text = f.Doc.Text()
			}
			c.read[dir][name+"."+id.Name] = strings.Join(strings.Fields(text), " ")
		}
	}
}

// members returns the members of a struct and of what these have, in order.
// Those of an embedded struct are its own, unless it has one of this name
// itself.
func members(t *testing.T, prefix string, in reflect.Type) (list []member) {
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
			for _, m := range members(t, prefix, of) {
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
		list = append(list, member{prefix + name + path, kind, strings.Contains(options, "omit"), in, f.Name})
		if inner != nil {
			list = append(list, members(t, prefix+name+path+".", inner)...)
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

// checkJSON fails the test if what a command printed is not what help json says:
// each object has the members that are never missing, no others than those of
// the text, and of these kinds. It returns the paths that were printed.
func checkJSON(t *testing.T, command, printed string) (paths []string) {
	t.Helper()
	members := members(t, "", reflect.TypeOf(objects[command]).Elem())
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
		assert.True(t, known[name], "%s prints %s%s, which %s does not describe", command, prefix, name, jsonFile)
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
