package docs_test

import (
	"go/ast"
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
)

// sections are those of errors.md by code. The text in front of the first code
// is under "".
func sections(t *testing.T) map[string]string {
	t.Helper()
	parts := strings.Split(string(read(t, "errors.md")), "\n### ")
	byCode := map[string]string{"": parts[0]}
	for _, part := range parts[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		require.Regexp(t, `^RL\d{3}$`, heading, "the heading is the code, so that its anchor is")
		byCode[heading] = text
	}
	return byCode
}

// librarySources calls do with each node of the library's Go, without tests.
func librarySources(t *testing.T, do func(path string, n ast.Node)) {
	t.Helper()
	others := regexp.MustCompile(`^(docs|benchmarks|examples)/|_test\.go$`)
	goFiles(t, func(path string, file *ast.File) {
		if !others.MatchString(path) {
			ast.Inspect(file, func(n ast.Node) bool { do(path, n); return true })
		}
	})
}

// Every code of the source has a section. That each section has a code of the
// source, the test of the messages shows.
func TestEveryCodeIsOnThePage(t *testing.T) {
	page, found := sections(t), 0
	librarySources(t, func(path string, n ast.Node) {
		literal, ok := n.(*ast.BasicLit)
		if !ok {
			return
		}
		for _, c := range code.FindAllString(literal.Value, -1) {
			found++
			assert.Contains(t, page, c, path)
		}
	})
	require.Greater(t, found, 50, "the premise: codes are found")
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
		for line := range strings.Lines(strings.Join(blocks(text, "text"), "")) {
			line = counts.ReplaceAllString(strings.TrimSuffix(line, "\n"), "$1=N")
			if !code.MatchString(line) {
				continue // what to do
			}
			shown++
			if !slices.ContainsFunc(said[section], pattern(line).MatchString) {
				t.Errorf("%s: the page shows\n%s\nand the library says\n%s", section, line, strings.Join(said[section], "\n"))
			}
		}
		assert.NotZero(t, shown, "%s shows a message", section)
	}
}

// pattern matches a message that ends with line, from its start or from behind
// a ": ". An ellipsis stands for any text.
func pattern(line string) *regexp.Regexp {
	text := strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".+")
	return regexp.MustCompile("^(.*: )?" + text + "(; want .*)?$") // a limit's form stands behind its mistake
}

// makers are the functions that make a ConfigError, by the index of the
// argument that is its field.
var makers = map[string]int{"ArgumentError": 0, "configError": 0, "BadArgument": 0, "badKey": 0, "wrong": 0, "mistake": 0}

// Every place that makes a ConfigError names a field that has a code, as far as
// the name stands there. Package policyfile computes paths, and tests them.
func TestEveryConfigErrorHasACode(t *testing.T) {
	places := 0
	librarySources(t, func(path string, n ast.Node) {
		var field, reason ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			if typeName(n.Type) == "ConfigError" && len(n.Elts) > 0 {
				require.Len(t, n.Elts, 3, path)
				field, reason = element(n.Elts[0]), element(n.Elts[2])
			}
		case *ast.CallExpr:
			if i, ok := makers[typeName(n.Fun)]; ok && len(n.Args) == 3 {
				field, reason = n.Args[i], n.Args[i+2]
			}
		}
		name, known := ending(field)
		if !known || strings.HasPrefix(name, " ") || strings.HasPrefix(path, "core/policyfile") { // computed
			return
		}
		if name == "" {
			name = "Limit" // as ParseLimit calls its text
		}
		places++
		why, _ := ending(reason)
		e := core.ConfigError{Field: name, Reason: why}
		assert.NotEmpty(t, e.Code(), "%s: the field %q has no code: give it one in core/internal/mistake/kinds.go", path, name)
	})
	require.Greater(t, places, 50, "the premise: the places are found")
}

// Every line that the library logs as a warning or an error has a code.
func TestEveryWarningHasACode(t *testing.T) {
	places := 0
	librarySources(t, func(path string, n ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasPrefix(f.Sel.Name, "Warn") && (typeName(f.X) != "slog" || !strings.HasPrefix(f.Sel.Name, "Error")) {
			return
		}
		places++
		hasCode := slices.ContainsFunc(call.Args, func(e ast.Expr) bool { s, _ := ending(e); return s == "code" })
		assert.True(t, hasCode, "%s: a line of the log has no code", path)
	})
	require.Greater(t, places, 10, "the premise: the places are found")
}

// element is the value of an element of a literal, with or without a key.
func element(e ast.Expr) ast.Expr {
	if pair, ok := e.(*ast.KeyValueExpr); ok {
		return pair.Value
	}
	return e
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
			before, _ := ending(e.X)
			return before + s, true
		}
		return ending(e.X)
	}
	return "", false
}
