package core_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// constants returns the names of the constants that a file declares with a
// prefix, in its order.
func constants(t *testing.T, file, prefix string, but ...string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, decl := range parsed.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST || !block.Lparen.IsValid() {
			continue
		}
		for _, spec := range block.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if name.IsExported() && strings.HasPrefix(name.Name, prefix) && !slices.Contains(but, name.Name) {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// named returns the names of values, up to the first that has none.
func named(value func(i int) fmt.Stringer) (names []string) {
	for i := 0; !strings.Contains(value(i).String(), "("); i++ {
		names = append(names, value(i).String())
	}
	return names
}

// A value that is added to an enumeration has its name in every form, or one of
// these tests fails.
func TestEveryConstantHasItsName(t *testing.T) {
	assert.Equal(t, constants(t, "headers.go", "Headers", "HeadersDefault"), named(func(i int) fmt.Stringer { return core.HeadersLegacy << i }))
	assert.Equal(t, constants(t, "policy.go", "Fail"), named(func(i int) fmt.Stringer { return core.FailureMode(i) }))
	assert.Equal(t, constants(t, "limit.go", "", "Requests", "Month", "Never"), named(func(i int) fmt.Stringer { return core.Mode(i) }))
	assert.Equal(t, []string{"store", "deny-cache", "lease", "fallback", "fail-open"}, named(func(i int) fmt.Stringer { return core.Source(i) }))
	assert.Equal(t, "Source(8)", core.Source(8).String())
}

// Each value is either refused everywhere, or the same in Go, JSON, YAML and
// text.
func TestEnumerationsSurviveTheirTexts(t *testing.T) {
	valid := map[string]int{}
	for value := range 256 {
		limit := core.PerMinute(5)
		for what, p := range map[string]core.Policy{
			"style":        {Name: "api", Limits: []core.Limit{limit}, Headers: core.HeaderStyle(value)},
			"failure mode": {Name: "api", Limits: []core.Limit{limit}, OnFailure: core.FailureMode(value)},
			"mode":         {Name: "api", Limits: []core.Limit{limit.WithMode(core.Mode(value))}},
		} {
			if core.Mode(value) == core.Concurrent && what == "mode" {
				p.Limits[0] = core.InFlight(5)
			}
			_, err := core.NewLimiter(core.NewMemoryStore(), p)
			text, marshalErr := json.Marshal(p)
			require.Equal(t, err == nil, marshalErr == nil, "%s %d: NewLimiter: %v, MarshalJSON: %v", what, value, err, marshalErr)
			if err != nil {
				continue
			}
			valid[what]++
			assert.NotContains(t, string(text), "null")
			var read core.Policy
			require.NoError(t, json.Unmarshal(text, &read), string(text))
			assert.Equal(t, p, read, "JSON: %s", text)
			policies := core.Must(policyfile.Load(strings.NewReader("[" + string(text) + "]"))) // JSON is YAML
			assert.Equal(t, p, policies[p.Name], "YAML: %s", text)
			assert.Equal(t, p.Limits[0], core.Must(core.ParseLimit(p.Limits[0].String())))
		}
	}
	assert.Equal(t, map[string]int{"style": 7, "failure mode": 3, "mode": 4}, valid, "the premise: those that headers.md, failure.md and limits.md describe")
}
