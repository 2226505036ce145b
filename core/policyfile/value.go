package policyfile

import (
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// field returns the value of a field of o, or the zero value if it is not given or wrong.
func field[T any](o *object, name string, read func(ast.Node) (T, string)) (v T) {
	if n := o.fields[name]; n != nil {
		return value(o.document, n, join(o.path, name), read)
	}
	return v
}

// value returns what n is by a function that returns a reason if n is wrong.
func value[T any](d *document, n ast.Node, path string, read func(ast.Node) (T, string)) T {
	n = d.follow(n, path)
	d.values[path] = n
	v, reason := read(n)
	if reason != "" && !d.wrongs[n] {
		d.wrong(n, path, shown(n), reason)
	}
	return v
}

// scalar returns the text of n and whether it is a string. A number is one by how it is written, also where the
// library calls it a string, such as 1e3.
func scalar(n ast.Node) (text string, isString bool) {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, n.Token.Type != token.StringType || !quantity.IsNumber(n.Value)
	case *ast.MappingNode, *ast.SequenceNode, *ast.AnchorNode, *ast.AliasNode, *ast.NullNode:
		return "", false
	}
	return n.GetToken().Value, false
}

func text(n ast.Node) (s, reason string) {
	s, isString := scalar(n)
	switch {
	case isString:
		return s, ""
	case s != "":
		return "", "must be a string: put it in quotes"
	}
	return "", "must be a string"
}

func rate(n ast.Node) (float64, string) { return number(n, quantity.ParseNumber) }
func tokens(n ast.Node) (int64, string) { return number(n, quantity.ParseTokens) }

func number[T any](n ast.Node, parse func(string) (T, string)) (v T, reason string) {
	s, isString := scalar(n)
	switch {
	case isString && quantity.IsNumber(s):
		return v, "must be a number without quotes"
	case s == "":
		return v, "must be a number"
	}
	return parse(s)
}

// interval reads a refill_interval. A bare number could be seconds or, as Go writes durations in JSON, nanoseconds.
func interval(n ast.Node) (time.Duration, string) {
	s, isString := scalar(n)
	switch t := n.Type(); {
	case isString:
		return quantity.ParseInterval(s)
	case t == ast.IntegerType || t == ast.FloatType || t == ast.StringType:
		return 0, "needs a unit, such as " + clip(s, 20) + "s"
	}
	return 0, quantity.WantInterval
}

func flag(n ast.Node) (v bool, reason string) {
	if b, ok := n.(*ast.BoolNode); ok {
		return b.Value, ""
	}
	return false, "must be true or false"
}

// word is what files call a value.
type word[T any] struct {
	text  string
	value T
}

// oneOf reads one of the words, in capitals or not.
func oneOf[T any](words []word[T]) func(ast.Node) (T, string) {
	return func(n ast.Node) (v T, reason string) {
		s, isString := scalar(n)
		names := make([]string, len(words))
		for i, w := range words {
			if names[i] = w.text; isString && strings.EqualFold(w.text, s) {
				return w.value, ""
			}
		}
		last := len(names) - 1
		return v, "must be " + strings.Join(names[:last], ", ") + " or " + names[last]
	}
}

// shown returns n as messages show it.
func shown(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.AnchorType, ast.AliasType:
		return "an alias"
	case ast.NullType:
		return "nothing"
	}
	s, isString := scalar(n)
	if s = clip(s, 80); isString {
		return strconv.Quote(s)
	}
	return s
}

// clip keeps messages short, whatever they quote.
func clip(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
