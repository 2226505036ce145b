package policyfile_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

func TestJSONIsReadAsJSON(t *testing.T) {
	long := strings.Repeat("k", 2000)
	for rule, test := range map[string]struct{ text, want string }{
		"escaped slashes":             {`{"name": "a\/b", "limits": ["1\/s"]}`, ""},
		"behind a byte order mark":    {"\ufeff" + `{"name": "a\/b", "limits": ["1\/s"]}`, ""},
		"an escaped name":             {`{"n\u0061me": "a\/b", "limits": ["1/s"]}`, ""},
		"a number with an exponent":   {`{"name": "a\/b", "limits": [{"refill_rate": 1E0, "refill_interval": "s"}]}`, ""},
		"a pair of surrogates":        {`{"name": "\ud83d\ude00", "limits": ["1/s"]}`, "line 1:10: name: \"😀\" must be printable ASCII"},
		"a raw DEL":                   {"{\"name\": \"a\x7f\", \"limits\": [\"1/s\"]}", `line 1:10: name: "a\x7f" must be printable ASCII`},
		"an end of a line to Unicode": {"{\"name\": \"a\u0085\u2028\", \"limits\": [\"1/s\"]}", "line 1:10: name: \"a\\u0085\\u2028\" must be printable ASCII"},
		"a long key":                  {`{"name": "a", "limits": ["1/s"], "` + long + `": 1}`, `line 1:34: "kkk`},
		"a repeated field":            {"{\"name\": \"a\",\n \"limits\": [\"1/s\"],\n \"name\": \"b\"}", "line 3:2: name: is given a second time: first on line 1"},
		"a merge key is none":         {`{"name": "a", "limits": ["1/s"], "<<": {}}`, `line 1:34: "<<" is not a field of a policy`},
		"a number that is too large":  {`{"name": "a", "limits": [{"refill_rate": 1e999, "refill_interval": "s"}]}`, "line 1:42: limits[0].refill_rate: 1e999 is too large"},
		"a place behind others":       {"{\n  \"name\": \"é\", \"shadow\": 1,\n\n\t\"limits\" :\r\n [ null]}", "line 2:11: name: \"é\" must be printable ASCII (RL101)\nline 2:26: shadow: 1 must be true or false (RL116)\nline 5:4: limits[0]: nothing must be"},
		"null":                        {" null ", "line 1: the file is empty"},
		"a string":                    {`"a"`, `line 1:1: "a" must be a policy`},
		"deep nesting":                {strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "line 1:9: [ is nested too deep: a policy file needs 5 levels"},
	} {
		got, err := policyfile.Parse([]byte(test.text))
		if test.want != "" {
			require.ErrorContains(t, err, test.want, rule)
			continue
		}
		require.NoError(t, err, rule)
		require.Equal(t, core.Policy{Name: "a/b", Limits: []core.Limit{core.PerSecond(1)}}, got, rule)
	}
}

// What encoding/json writes is read as the same, and a mistake has the place
// that YAML tells of the same text.
func TestJSONHasThePlacesOfYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.MapOf(rapid.StringMatching(`[a-z]{1,5}`), rapid.StringMatching(`[ -~é]{0,8}`)).Draw(t, "fields")
		for _, indent := range []string{"", "  "} {
			text, err := json.MarshalIndent(fields, "", indent)
			require.NoError(t, err)
			_, err = policyfile.Parse(text)
			require.Error(t, err)
			_, same := policyfile.Parse(append(text, " # no JSON"...))
			require.EqualError(t, err, same.Error(), "%s", text)
		}
	})
}
