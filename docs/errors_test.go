package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

var (
	code      = regexp.MustCompile(`\bRL\d{3}\b`)
	codeThere = regexp.MustCompile(`\((RL\d{3})\)|\bcode=(RL\d{3})`)                               // in a message
	counts    = regexp.MustCompile(`\b(fallback_percent|waited_to_be_sent|no_answer|refused)=\d+`) // what differs from run to run
	textFence = regexp.MustCompile("(?ms)^```text\n(.*?)^```")
)

// sections are those of errors.md by code. The text in front of the first code
// is under "".
func sections(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("errors.md")
	require.NoError(t, err)
	parts := strings.Split(string(page), "\n### ")
	byCode := map[string]string{"": parts[0]}
	last := ""
	for _, part := range parts[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		require.Regexp(t, `^RL\d{3}$`, heading, "the heading is the code, so that its anchor is")
		require.Less(t, last, heading, "codes stand in order, each once")
		byCode[heading], last = text, heading
	}
	return byCode
}

// sources calls do with each file of Go that is no test.
func sources(t *testing.T, do func(path string, text []byte)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"docs", "benchmarks", "examples", ".git"}, entry.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		do(path, text)
		return err
	}))
}

// Every code of the source has a section. That each section has a code of the
// source, the test of the messages shows.
func TestEveryCodeIsOnThePage(t *testing.T) {
	inSource := map[string]bool{}
	sources(t, func(path string, text []byte) {
		for _, found := range code.FindAllString(string(text), -1) {
			inSource[found] = inSource[found] || !strings.HasSuffix(path, "core/internal/mistake/kinds.go")
		}
	})
	page := sections(t)
	for found := range inSource {
		assert.Contains(t, page, found)
	}
	require.Greater(t, len(inSource), 50, "the premise: codes are found")
}

// Every message on the page is what the library says today, with the code of
// its section. Each section has one.
func TestMessagesAreAsOnThePage(t *testing.T) {
	said := map[string][]string{}
	for line := range strings.Lines(everyMistake(t)) {
		line = regexp.MustCompile(`^time=\S+ `).ReplaceAllString(strings.TrimSuffix(line, "\n"), "")
		line = counts.ReplaceAllString(line, "$1=N")
		for _, found := range codeThere.FindAllStringSubmatch(line, -1) {
			c := found[1] + found[2]
			said[c] = append(said[c], line)
		}
	}
	for section, text := range sections(t) {
		if section == "" {
			continue
		}
		shown := 0
		for _, block := range textFence.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(block[1]) {
				line = strings.TrimSuffix(line, "\n")
				if !code.MatchString(line) {
					continue // what to do
				}
				shown++
				line = counts.ReplaceAllString(line, "$1=N")
				if !slices.ContainsFunc(said[section], pattern(line).MatchString) {
					t.Errorf("%s: the page shows\n%s\nand the library says\n%s", section, line, strings.Join(said[section], "\n"))
				}
			}
		}
		assert.NotZero(t, shown, "%s shows a message", section)
	}
}

// pattern matches a message that ends with line, from its start or from behind
// a ": ". An ellipsis stands for any text.
func pattern(line string) *regexp.Regexp {
	parts := strings.Split(line, "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^(.*: )?" + strings.Join(parts, ".+") + "(; want .*)?$") // a limit's form stands behind its mistake
}

// The program at the top of the page prints what the page says.
func TestTheProgramOfTheErrorsPageRuns(t *testing.T) {
	top := sections(t)[""]
	out, err := command(t, nameOf("errors.md", 0), "").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, textFence.FindStringSubmatch(top)[1], string(out))
}

// makers are the functions that make a ConfigError, by the index of the
// argument that is its field.
var makers = map[string]int{"ArgumentError": 0, "configError": 0, "BadArgument": 0, "badKey": 0, "wrong": 0, "mistake": 0}

// Every place that makes a ConfigError names a field that has a code, as far as
// the name stands there.
func TestEveryConfigErrorHasACode(t *testing.T) {
	places := 0
	check := func(at token.Position, field, reason ast.Expr) {
		name, known := ending(field)
		if !known || strings.HasPrefix(name, " ") { // the argument of a function that is computed
			return
		}
		if name == "" {
			name = "Limit" // as ParseLimit calls its text
		}
		why, _ := ending(reason)
		places++
		if e := (core.ConfigError{Field: name, Reason: why}); e.Code() == "" {
			t.Errorf("%v: the field %q has no code: give it one in core/internal/mistake/kinds.go", at, name)
		}
	}
	sources(t, func(path string, text []byte) {
		if strings.Contains(path, "core/policyfile") {
			return // paths are computed: the tests of package policyfile look at each mistake
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if typeName(n.Type) != "ConfigError" || len(n.Elts) == 0 {
					break
				}
				parts := make([]ast.Expr, len(n.Elts))
				for i, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						e = pair.Value
					}
					parts[i] = e
				}
				require.Len(t, parts, 3, "%v", files.Position(n.Pos()))
				check(files.Position(n.Pos()), parts[0], parts[2])
			case *ast.CallExpr:
				if i, ok := makers[typeName(n.Fun)]; ok && len(n.Args) == 3 {
					check(files.Position(n.Pos()), n.Args[i], n.Args[i+2])
				}
			}
			return true
		})
	})
	require.Greater(t, places, 50, "the premise: the places are found")
}

// Every line that the library logs as a warning or an error has a code.
func TestEveryWarningHasACode(t *testing.T) {
	places := 0
	sources(t, func(path string, text []byte) {
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.HasPrefix(f.Sel.Name, "Warn") && (typeName(f.X) != "slog" || !strings.HasPrefix(f.Sel.Name, "Error")) {
				return true
			}
			places++
			if !slices.ContainsFunc(call.Args, func(e ast.Expr) bool { s, _ := ending(e); return s == "code" }) {
				t.Errorf("%v: this line of the log has no code", files.Position(n.Pos()))
			}
			return true
		})
	})
	require.Greater(t, places, 10, "the premise: the places are found")
}

// typeName is the last name in an expression such as core.ConfigError or
// middleware.BadArgument[C, V].
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	}
	return ""
}

// ending is how the text of an expression ends, if that stands there. For a
// reason it is also how it begins.
func ending(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		if s, ok := ending(e.Y); ok {
			if before, ok := ending(e.X); ok {
				s = before + s
			}
			return s, true
		}
		return ending(e.X)
	}
	return "", false
}
