package policyfile_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// mistakes returns all that err joins.
func mistakes(t *testing.T, err error) (list []*policyfile.Error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "all mistakes are joined: %v", err)
	for _, each := range joined.Unwrap() {
		var e *policyfile.Error
		require.ErrorAs(t, each, &e)
		require.NotEmpty(t, e.Reason)
		require.Regexp(t, `^RL\d{3}$`, e.Code())
		require.Positive(t, e.Line)
		list = append(list, e)
	}
	return list
}

// refused checks that a file is refused with a text.
func refused(t *testing.T, text, want string) {
	t.Helper()
	policies, err := policyfile.Load(strings.NewReader(text))
	if assert.Error(t, err, "%q", text) {
		mistakes(t, err)
		assert.Equal(t, strings.Trim(want, "\n"), err.Error(), "%q", text)
	}
	assert.Nil(t, policies, "a file with a mistake gives no policy")
}

// All limits that can't be read and all that is wrong with the meaning of
// policies come at once, each with its line.
func TestMistakesInMeaningComeAllAtOnce(t *testing.T) {
	refused(t, `policies:
  - name: search
    limits:
      - ten/min
      - 60/min burst 20
      - 10/s brust 20
    on_failure: ignore
  - name: naïve
    limits:
      - 0/min burst 0
      - 60 tokens/min name x
      - 60/h name x
    overrides:
      x-api-key:k-123: [5/min name y]
    blocked: ["ip:192.0.2.1", ""]
    local_share: 1.5
    headers: draft6, draft8
  - name: search
`, `
line 4:9: policies[0].limits[0]: "ten/min" is not a limit: "ten" is not a number, such as 100, 0.5 or 1_000; write it as 60/min burst 20 (RL110)
>  4 |       - ten/min
               ^
line 6:9: policies[0].limits[2]: "10/s brust 20" is not a limit: "brust" is not understood; write it as 60/min burst 20 (RL110)
>  6 |       - 10/s brust 20
               ^
line 7:17: policies[0].on_failure: "ignore" must be local, open or closed (RL112)
>  7 |     on_failure: ignore
                       ^
line 8:11: policies[1].name: "naïve" must be printable ASCII (RL101)
>  8 |   - name: naïve
                 ^
line 10:9: policies[1].limits[0]: burst 0 must be from 1 to 999999999999999 tokens (RL102)
> 10 |       - 0/min burst 0
               ^
line 10:9: policies[1].limits[0]: rate 0 must be a number above 0 (tokens every RefillInterval) (RL103)
> 10 |       - 0/min burst 0
               ^
line 12:9: policies[1].limits[2]: name "x" is the name of Policy.Limits[1] already: give each limit a name of its own (RL115)
> 12 |       - 60/h name x
               ^
line 14:25: policies[1].overrides.x-api-key:…[0]: name "y" is no limit of the policy and its plans: name the one that it replaces, "naïve-1m", "x" (RL119)
> 14 |       x-api-key:*****: [5/min name y]
                               ^
line 15:31: policies[1].blocked[1]: "" is an empty key, which no request can have (RL111)
> 15 |     blocked: ["ip:*********", ""]
                                     ^
line 16:18: policies[1].local_share: 1.5 must be above 0 and at most 1 (0 means 1) (RL113)
> 16 |     local_share: 1.5
                        ^
line 17:14: policies[1].headers: HeadersDraft8|HeadersDraft6 must be HeadersLegacy, HeadersDraft8, HeadersDraft6 or HeadersNone; HeadersNone stands alone, and HeadersDraft8|HeadersDraft6 can't be combined (RL114)
> 17 |     headers: draft6, draft8
                    ^
line 18:5: policies[2].limits: 0 limits: at least one is required (RL109)
> 18 |   - name: search
           ^
`)
}

func TestUnknownFieldsAreNamed(t *testing.T) {
	const list = "name, limits, plans, overrides, blocked, on_failure, local_share, headers, shadow"
	for text, want := range map[string]string{
		"- name: a\n  limits: [1/s]\n  onFailure: open\n": `line 3:3: [0]: unknown field "onFailure": the fields of a policy are ` + list + ` (RL206)
>  3 |   onFailure: ****
         ^`,
		"- name: a\n  limits: [1/s]\n  user:bob: [1/s]\n": `line 3:3: [0]: unknown field "user:…": the fields of a policy are ` + list + ` (RL206)
>  3 |   user:***: [1/s]
         ^`,
		"policies: []\npolicy: 5\n": `line 2:1: unknown field "policy": a file of policies has the field policies alone (RL206)
>  2 | policy: *
       ^`,
	} {
		_, err := policyfile.Load(strings.NewReader(text))
		assert.ErrorContains(t, err, want)
	}
}

func TestWrongFilesAreRefusedAtTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "line 1: the file is empty (RL202)",
		"# soon\n":                              "line 1: the file is empty (RL202)",
		" null ":                                "line 1: the file is empty (RL202)",
		"name: a\xff\n":                         "line 1: the file is not UTF-8 text (RL202)",
		"policies: [\n":                         "line 1:11: invalid YAML: sequence end token ']' not found (RL202)\n>  1 | policies: [\n                 ^",
		"policies:\n\t- name: a\n":              "line 2:1: invalid YAML: found character '\\t' that cannot start any token (RL202)\n>  2 | \\t- name: a\n       ^",
		"- name: a\n  name: b\n":                "line 2:3: [0]: is given a second time (RL207)\n>  2 |   name: b\n         ^",
		"policies:\n- &a 5\n":                   "line 2:3: anchors and aliases are not read: write the value out (RL203)\n>  2 | - &* *\n         ^",
		"policies: *a\n":                        "line 1:11: anchors and aliases are not read: write the value out (RL203)\n>  1 | policies: **\n                 ^",
		"policies: !!seq []\n":                  "line 1:11: tags are not read: leave it out (RL203)\n>  1 | policies: !!seq []\n                 ^",
		"? a\n":                                 "line 1:1: complex keys are not read: write name: value (RL203)\n>  1 | ? *\n       ^",
		"---\n- a\n---\n- b\n":                  "line 4:1: a second document is not read: put all into one (RL203)\n>  4 | - *\n       ^",
		"[]":                                    "line 1:1: is an empty list: at least one policy is required (RL208)\n>  1 | []\n       ^",
		"5":                                     "line 1:1: must be a list of policies: begin each with - name: (RL208)\n>  1 | *\n       ^",
		"policies: api":                         "line 1:11: policies: must be a list of policies: begin each with - name: (RL208)\n>  1 | policies: ***\n                 ^",
		"- {name: a, limits: 1/s}":              "line 1:21: [0].limits: must be a list of limits, such as [60/min burst 20] (RL109)\n>  1 | - {name: a, limits: 1/s}\n                           ^",
		"- {name: a, limits: [{a: b}]}":         "line 1:22: [0].limits[0]: must be text, such as \"60/min burst 20\" (RL110)\n>  1 | - {name: a, limits: [{*: *}]}\n                            ^",
		"- {name: a, limits: [1/s], shadow: 5}": "line 1:36: [0].shadow: must be true or false (RL208)\n>  1 | - {name: a, limits: [1/s], shadow: 5}\n                                          ^",
		"- {name: a, limits: [1/s], local_share: x}":               "line 1:41: [0].local_share: must be a number (RL208)\n>  1 | - {name: a, limits: [1/s], local_share: x}\n                                               ^",
		"- {name: a, limits: [1/s], blocked: 5}":                   "line 1:37: [0]: must be a list (RL208)\n>  1 | - {name: a, limits: [1/s], blocked: *}\n                                           ^",
		"- {name: a, limits: [1/s], plans: [5]}":                   "line 1:35: [0]: must be a mapping (RL208)\n>  1 | - {name: a, limits: [1/s], plans: [*]}\n                                         ^",
		"- {name: a, limits: [1/s]}\n- {name: a, limits: [1/s]}\n": "line 2:10: [1].name: is the name of [0] already: give each policy a name of its own (RL115)\n>  2 | - {name: a, limits: [1/s]}\n                ^",
	} {
		refused(t, text, want)
	}
	_, err := policyfile.Load(strings.NewReader("- api\n"))
	require.ErrorContains(t, err, "line 1:3: [0]: must be a policy: a mapping with the fields name, limits")
}

// Lines end with \n or \r\n, with comments and texts of several lines too.
func TestEndsOfLinesDontChangePlaces(t *testing.T) {
	for text, place := range map[string]string{
		"- name: a # c\n  limits: [1/x]\n":                                  "line 2:12",
		"# c\n# d\n# e\n- name: a\n  limits: [1/x]\n":                       "line 5:12",
		"- name: a\n  limits:\n    - '10/s\n      burst 30'\n  shadow: 5\n": "line 5:11",
	} {
		for _, end := range []string{"\n", "\r\n"} {
			_, err := policyfile.Load(strings.NewReader(strings.ReplaceAll(text, "\n", end)))
			require.ErrorContains(t, err, place, "%q", text)
		}
	}
}

// A mistake below a key is reported where it is, however long the key is and
// whatever it holds. Programs get the key; messages don't show it.
func TestMistakesBelowOddKeys(t *testing.T) {
	long := strings.Repeat("k", 200)
	for key, field := range map[string]string{
		"ann": "ann", "a.b": "a.b", `"a[0]"`: "a[0]", `"a]"`: "a]", `"Limits[1].Name"`: "Limits[1].Name", `"\e[31m\n"`: `\x1b[31m\n`, long: long[:128] + "…",
	} {
		_, err := policyfile.Load(strings.NewReader("- name: a\n  limits: [1/s]\n  overrides:\n    a: [1/s]\n    " + key + ":\n      - 1/s name a\n      - 0/s\n"))
		require.ErrorContains(t, err, "line 7:9: [0].overrides.…[1]: rate 0 must be a number above 0", key)
		require.Equal(t, "[0].overrides."+field+"[1]", mistakes(t, err)[0].Field, key)
	}
}

func TestOnlyTheFirstHundredMistakesAreReported(t *testing.T) {
	_, err := policyfile.Load(strings.NewReader(strings.Repeat("- \n", 200)))
	require.Len(t, mistakes(t, err), 101)
	require.ErrorContains(t, err, "line 101: too many mistakes: only the first 100 are reported (RL204)")
}

// Errors are logged. Keys of overrides can be API keys and personal data, and a
// wrong path can lead to a file of secrets.
func TestMistakesShowNoSecret(t *testing.T) {
	const policy = "- name: api\n  limits: [1/s]\n"
	for _, text := range []string{
		policy + "  overrides:\n    x-api-key:SECRET: [five/s]\n",
		policy + "  overrides:\n    x-api-key:SECRET: []\n",
		policy + "  overrides:\n    SECRET|ip:192.0.2.1: []\n",
		policy + "  overrides:\n    \"%=SECRET%7Ca|ip:192.0.2.1\": 5\n",
		policy + "  overrides:\n    route:/x|x-api-key:SECRET: [0/min]\n",
		policy + "SECRET|ip:192.0.2.1: [1/s]\n",
		policy + "  overrides:\n    x-api-key:SECRET: {}\n",
		policy + "  overrides:\n    x-api-key:SECRET: 5\n",
		policy + "  overrides:\n    \"x-api-key:SECRET[0]\": [0/s]\n",
		policy + "  overrides:\n    SECRET.capacity: [{capacity: -1, refill_rate: 1, refill_interval: s}]\n",
		policy + "  overrides:\n    user:SECRET: [1/s]\n    user:SECRET: [2/s]\n",
		policy + "  overrides:\n    user:SECRET: [1/s name x, 2/s name x]\n",
		policy + "  overrides:\n    user:SECRET: [{limit: 5}]\n",
		policy + "  overrides:\n    x-api-key:SECRET [1/s]\n",
		policy + "  overrides: x-api-key:SECRET\n",
		policy + "  overrides: {x-api-key:SECRET}\n",
		policy + "  overrides: {\"x-api-key:SECRET\": 5}\n",
		policy + "  overrides: {\"x-api-key:SECRET\n",
		policy + "  overrides:\n  x-api-key:SECRET: [1/s]\n",
		policy + "x-api-key:SECRET: [1/s]\n",
		"policies: []\nx-api-key:SECRET: [1/s]\n",
		policy + "  blocked: [SECRET, \"\"]\n", policy + "  blocked: [[x-api-key:SECRET]]\n", policy + "  shadow: maybe # SECRET\n",
		"policies:\n  - {name: api, limits: [1/s], overrides: {\"user:SECRET\": [0/s]}, blocked: [SECRET]}\n",
		"SECRET\n", "root:SECRET:19000:0:99999:7:::\n", "database:\n  password: SECRET\n",
		"-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n",
		`{"password": "SECRET"}`, `{"password": "SECRET`, `{"password": SECRET`,
	} {
		_, err := policyfile.Load(strings.NewReader(text))
		require.ErrorContains(t, err, "line ", "%q", text)
		require.NotContains(t, err.Error(), "SECRET", "%q", text)
	}
}

// What can't be printed is escaped, wherever it stands in a file.
func TestControlBytesNeverReachAMessage(t *testing.T) {
	for _, text := range []string{
		"name: \x1b[31m\nlimits: [1/s]", "\x1b[31m: a", "name: a\nlimits: [\x1b[31m/s]", "name: *\x1b[31m\nlimits: [1/s]", "name: !\x1b a\nlimits: [1/s]",
		"name: a\nlimits: [{\x1b: 5}]", "name: a\nlimits: [{\x1b/s: 5}]", "name: a\nlimits: [1/s]\nshadow: \x1b", "name: a\nlimits: [1/s]\nheaders: [\u202e]",
		"name: a\nlimits: [1/s]\noverrides: {\"\\e\\n\": [1]}", "name: a\nlimits: [1/s]\n\x07: 1\n\x07: 2", "? \x07", "{\x07", "\x07\tb: c", "- \x07\n- \x07", "name: a\n\tlimits: 5",
		"&\x1b a: *\x07", "name: a\nlimits: [1/s]\n<<: \x1b", "name: a\nlimits: [1/s in \x1b]", "name: a\nlimits: [1/s name \"\\e\"]", "name: a\nlimits: [1 \x1b/s]",
	} {
		for _, whole := range []string{text, "- " + strings.ReplaceAll(text, "\n", "\n  ")} {
			_, err := policyfile.Load(strings.NewReader(whole))
			require.Error(t, err, "%q", whole)
			for _, e := range mistakes(t, err) {
				require.Negative(t, strings.IndexFunc(e.Field+e.Reason, func(r rune) bool { return !strconv.IsPrint(r) }), "%q: %+q", whole, e)
			}
			require.Negative(t, strings.IndexFunc(err.Error(), func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }), "%q: %q", whole, err)
		}
	}
}
