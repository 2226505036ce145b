package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// printed runs a command, and returns what it prints and its exit code.
func printed(t *testing.T, in string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(in), &o, &e)
	return o.String(), e.String(), code
}

func TestMistakesInTheCommandLineAreNamedWithWhatIsMeant(t *testing.T) {
	for line, says := range map[string]string{
		"":                         "name a command",
		"versio":                   "Did you mean this?\n\tversion",
		"version x":                `unknown command "x" for "ratelimit version"`,
		"get":                      "get accepts 2 arg(s), received 0 (see ratelimit get --help)",
		"replay -html":             "flags have two dashes: --html",
		"get api -policies p.yaml": "flags have two dashes: --policies",
		"version --jsn":            "did you mean --json?",
		"version -json":            "flags have two dashes: --json",
		"version --zzzzzz":         "version has no flag --zzzzzz (see ratelimit version --help)",
	} {
		_, errs, code := printed(t, "", strings.Fields(line)...)
		assert.Equal(t, exitMisuse, code, line)
		assert.Contains(t, errs, says, line)
	}
}

func TestVersion(t *testing.T) {
	out, _, code := printed(t, "", "version")
	assert.Equal(t, exitDone, code)
	assert.True(t, strings.HasPrefix(out, "ratelimit "), out)
	out, _, _ = printed(t, "", "version", "--json")
	require.True(t, json.Valid([]byte(out)), out)
}
