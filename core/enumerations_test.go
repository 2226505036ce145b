package core_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
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
				if name.IsExported() && strings.HasPrefix(name.Name, prefix) && !strings.Contains(strings.Join(but, " "), name.Name) {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// A value that is added to an enumeration has its name in every form, or one of
// these tests fails.
func TestEveryConstantHasItsName(t *testing.T) {
	var names []string
	for bit := core.HeadersLegacy; !strings.Contains(bit.String(), "("); bit <<= 1 {
		names = append(names, bit.String())
	}
	assert.Equal(t, constants(t, "headers.go", "Headers", "HeadersDefault"), names)

	names = nil
	for mode := core.FailLocal; !strings.Contains(mode.String(), "("); mode++ {
		names = append(names, mode.String())
	}
	assert.Equal(t, constants(t, "policy.go", "Fail"), names)

	names = nil
	for mode := core.Continuous; !strings.Contains(mode.String(), "("); mode++ {
		names = append(names, mode.String())
	}
	assert.Equal(t, constants(t, "limit.go", "", "Requests", "Month", "Never"), names)
}

// survives checks that a policy is the same after it was written and read as
// JSON and as YAML.
func survives(t *testing.T, p core.Policy) {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "null")
	var read core.Policy
	require.NoError(t, json.Unmarshal(text, &read), string(text))
	assert.Equal(t, p, read, "JSON: %s", text)
	policies, err := policyfile.Load(strings.NewReader("[" + string(text) + "]")) // JSON is YAML
	require.NoError(t, err, string(text))
	assert.Equal(t, p, policies[p.Name], "YAML: %s", text)
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
			_, marshalErr := json.Marshal(p)
			require.Equal(t, err == nil, marshalErr == nil, "%s %d: NewLimiter: %v, MarshalJSON: %v", what, value, err, marshalErr)
			if err != nil {
				continue
			}
			valid[what]++
			survives(t, p)
			parsed, err := core.ParseLimit(p.Limits[0].String())
			require.NoError(t, err)
			assert.Equal(t, p.Limits[0], parsed)
		}
	}
	assert.Equal(t, map[string]int{"style": 7, "failure mode": 3, "mode": 4}, valid, "the premise: those that headers.md, failure.md and policies.md describe")
}

// Core converts modes and sources to those of package bucket, and back.
func TestModesAndSourcesHaveTheNumbersOfPackageBucket(t *testing.T) {
	for mode, same := range map[core.Mode]bucket.Mode{
		core.Continuous: bucket.Continuous, core.Stepped: bucket.Stepped, core.Aligned: bucket.Aligned, core.Concurrent: bucket.Concurrent,
	} {
		assert.EqualValues(t, mode, same, mode)
	}
	for source, same := range map[core.Source]bucket.Source{
		core.FromStore: bucket.FromStore, core.FromDenyCache: bucket.FromDenyCache, core.FromLease: bucket.FromLease,
		core.FromFallback: bucket.FromFallback, core.FromFailOpen: bucket.FromFailOpen,
	} {
		assert.EqualValues(t, source, same, source)
	}
	assert.Equal(t, bucket.Month, core.Month)
}
