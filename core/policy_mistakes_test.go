package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// places lists the mistakes in err as "line:column field value", in their order.
func places(t *testing.T, err error) []string {
	t.Helper()
	var list []string
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok, "all mistakes are joined: %v", err)
	for _, each := range joined.Unwrap() {
		var e *core.PolicyFileError
		require.ErrorAs(t, each, &e)
		require.NotEmpty(t, e.Reason)
		require.Positive(t, e.Line)
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s", e.Line, e.Column, e.Field, e.Value)))
	}
	return list
}

func TestParsePolicyTellsEveryMistakeAndItsPlace(t *testing.T) {
	_, err := core.ParsePolicy([]byte(`name: naïve
nam: search
limits:
  - ten/moment burst 0
  - name: daily
    capacity: "ten"
    refill_rate: -1
    refill_interval: 30
    mode: sliding
  - 5
  - capacity: 1.5
    refilRate: 3
    refill-rate: 3
  - 1/s name daily
  - 1/h brust 5
on_failure: FailOpen
local_share: 1.5
local_share: 0.5
headers: [legacy, ietf, draft6, none]
shadow: "yes"
`))
	require.Equal(t, []string{
		"1:7 name \"naïve\"",
		"2:1  \"nam\"",
		"4:5 limits[0].refill_rate \"ten\"",
		"4:5 limits[0].refill_interval \"moment\"",
		"4:5 limits[0].capacity 0",
		"6:15 limits[1].capacity \"ten\"",
		"7:18 limits[1].refill_rate -1",
		"8:22 limits[1].refill_interval 30",
		"9:11 limits[1].mode \"sliding\"",
		"10:5 limits[2] 5",
		"11:5 limits[3].refill_rate",
		"11:5 limits[3].refill_interval",
		"11:15 limits[3].capacity 1.5",
		"12:5 limits[3] \"refilRate\"",
		"13:5 limits[3] \"refill-rate\"",
		"14:5 limits[4].name \"daily\"",
		"15:5 limits[5] \"brust\"",
		"15:5 limits[5] \"5\"",
		"16:13 on_failure \"FailOpen\"",
		"17:14 local_share 1.5",
		"18:1 local_share",
		"19:25 headers[2] \"draft6\"",
		"19:33 headers[3] \"none\"",
		"20:9 shadow \"yes\"",
	}, places(t, err))
	require.ErrorContains(t, err, `line 13:5: limits[3]: "refill-rate" is not a field of a limit: write refill_rate`)
	require.ErrorContains(t, err, `line 14:5: limits[4].name: "daily" is the name of limits[1] already`)
	require.ErrorContains(t, err, "line 8:22: limits[1].refill_interval: 30 needs a unit, such as 30s")
}

func TestWrongDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "line 1: the file is empty",
		"# nothing\n":                  "line 1: the file is empty",
		"---\n":                        "line 1: the file is empty",
		"null":                         "line 1: the file is empty",
		"[]":                           `line 1:1: a list must be a policy, a mapping with the fields name, limits, on_failure, local_share, headers, shadow`,
		"api":                          `line 1:1: "api" must be a policy`,
		"{}":                           "line 1:1: name: is required\nline 1:1: limits: is required",
		"{name: api, limits: []}":      "line 1:21: limits: is an empty list: at least one is required",
		"{name: api, limits: 1/s}":     `line 1:21: limits: "1/s" must be a list of limits`,
		"{name: api, limits: [~]}":     "line 1:22: limits[0]: nothing must be a string such as 100/min burst 20, or a mapping",
		"{name: api, limits: [[1/s]]}": "line 1:22: limits[0]: a list must be",
		"{name: 12, limits: [1/s]}":    "line 1:8: name: 12 must be a string: put it in quotes",
		"name:\nlimits: [1/s]":         "line 1:6: name: nothing must be a string",
		"{name: '', limits: [1/s]}":    `line 1:8: name: "" is required`,
		"{name: api, limits: [1/s], headers: []}":                                          "line 1:37: headers: is an empty list",
		"{name: api, limits: [1/s], headers: 7}":                                           "line 1:37: headers: 7 must be default, none, legacy, ietf or draft6",
		"{name: api, limits: [1/s], headers: [7]}":                                         "line 1:38: headers[0]: 7 must be",
		"{name: api, limits: [1/s], local_share: 0}":                                       "line 1:41: local_share: 0 must be above 0",
		"{name: api, limits: [1/s], local_share: .nan}":                                    "line 1:41: local_share: .nan must be a number such as",
		"{name: api, limits: [0.5/s]}":                                                     "line 1:22: limits[0].capacity: is required where the rate is not whole: add burst N",
		"{name: api, limits: [{refill_rate: 010, refill_interval: s}]}":                    "line 1:36: limits[0].refill_rate: 010 must be a number",
		"{name: api, limits: [{refill_rate: 0.5, refill_interval: s}]}":                    "line 1:22: limits[0].capacity: is required",
		"{name: api, limits: [{refill_rate: 1, refill_interval: s, name: ''}]}":            `line 1:65: limits[0].name: "" must not be empty`,
		"{name: api, limits: [{refill_rate: 1e16, refill_interval: s}]}":                   "line 1:22: limits[0].capacity: 1000000000000000 must be from 1",
		"{name: api, limits: [{refill_rate: 1, refill_interval: 300000h, capacity: 5e6}]}": "refill_rate: 1 is too slow",
		"{name: api, limits: [1/s], ? [a] : b}":                                            "a list is not a field of a policy",
		"{name: api, limits: [1/s], <<: 5}":                                                "line 1:32: <<: 5 must be a mapping, or a list of mappings",
		"name: api\nlimits: [1/s]\n---\nname: b\n":                                         "line 3:1: a second document begins: put all into one",
		"name: api\nlimits: [1/s\n":                                                        "line 2: is not YAML: did not find expected ',' or ']'",
		"name: api\nlimits:\n\t- 1/s\n":                                                    "line 3:1: is not YAML: a tab can't indent YAML: use spaces",
		"name: api\n\tlimits: [1/s]\n":                                                     "line 2:1: is not YAML: a tab can't indent YAML: use spaces",
		"name: api\n  \tlimits: [1/s]\n":                                                   "line 2:3: is not YAML: a tab can't indent YAML: use spaces",
		"limits:\n  - name: a\n  \t  capacity: 1\n":                                        "line 3:3: is not YAML: a tab can't indent YAML: use spaces",
		"name: \"a\u0085\"\nlimits: [1/s]":                                                 "line 1:9: has the character U+0085, which ends a line in YAML: leave it out",
		"name: a\nlimits: [1/s] # a\u2028b":                                                "line 2:18: has the character U+2028",
		"%YAML 2.0\n---\nname: a\nlimits: [1/s]":                                           "line 1: is not YAML: found incompatible YAML document",
		`{name: "a\/b", limits: [1/s]}`:                                                    `line 1:10: is not YAML: \/ is an escape in JSON only: write /`,
		`{"name": "a\/b", "limits": ["1/s",]}`:                                             "line 1:35: is not JSON: invalid character ']' looking for beginning of value",
		"name: !foo a\nlimits: [1/s]":                                                      "line 1:7: name: a must be a string: leave out the tag !foo",
		"{name: a, limits: [{refill_rate: !foo 5, refill_interval: s}]}":                   "line 1:34: limits[0].refill_rate: 5 must be a number: leave out the tag !foo",
		`{name: a, limits: [{refill_rate: "5", refill_interval: s}]}`:                      `line 1:34: limits[0].refill_rate: "5" must be a number without quotes`,
		"{name: a, limits: [{refill_rate: 1e999, refill_interval: s}]}":                    "line 1:34: limits[0].refill_rate: 1e999 is too large",
		"{name: a, limits: [{refill_rate: 1e-999, refill_interval: s}]}":                   "line 1:34: limits[0].refill_rate: 1e-999 is too small",
		"{name: a, limits: [1/s], local_share: 1e999}":                                     "line 1:39: local_share: 1e999 is too large",
		"{name: a, limits: [" + strings.Repeat("1/s, ", 65) + "]}":                         "line 1:19: limits: 65 limits: at most 64 can hold together",
		"{name: a, limits: [100 per minute]}":                                              `line 1:20: limits[0]: "100 per minute" has no slash between a rate and an interval: a limit is RATE/INTERVAL`,
		"name: api\nlimits:\n  - *lost\n":                                                  "line 3:5: is not YAML: unknown anchor 'lost' referenced",
		"name: api: b\n":                                                                   "line 1: is not YAML: mapping values are not allowed in this context",
		"name: a\xff\n":                                                                    "line 1: is not YAML: invalid",
		"- name: api\nlimits: 5\n":                                                         "line 2: is not YAML: did not find expected '-' indicator",
		"&a {name: api, <<: *a, limits: [1/s]}":                                            "is merged too deep",
		"{name: api, limits: &a [*a]}":                                                     "limits[0]: a list must be a string",
	} {
		_, err := core.ParsePolicy([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
		places(t, err)
	}
	for _, share := range []string{"0", "-0.5", "1.5"} {
		_, err := core.ParsePolicy([]byte("{name: a, limits: [1/s], local_share: " + share + "}"))
		require.EqualError(t, err, "line 1:39: local_share: "+share+" must be above 0 and at most 1", "0 means nothing else in a file")
	}
	for text, want := range map[string]string{
		"[]":                         "line 1:1: is an empty list: at least one is required",
		"policies: []":               "line 1:11: policies: is an empty list",
		"policies:":                  "line 1:10: policies: nothing must be a list of policies",
		"{}":                         "line 1:1: policies: is required: a list of policies",
		"name: api\nlimits: [1/s]\n": `line 1:1: "name" is not a field of a file of policies: the fields are policies`,
		"5":                          "line 1:1: 5 must be a file of policies",
		"- {name: a, limits: [1/s]}\n- {name: b, limits: [1/s]}\n- {name: a, limits: [1/s]}\n": `line 3:10: [2].name: "a" is the name of [0] (line 1) already`,
		"policies:\n- name: a\n- limits: [0/s]\n":                                              "line 2:3: policies[0].limits: is required\nline 3:3: policies[1].name: is required\nline 3:12: policies[1].limits[0].refill_rate: 0 must be a number above 0 (tokens every refill_interval)",
	} {
		policies, err := core.LoadPolicies(strings.NewReader(text))
		require.ErrorContains(t, err, want, "%q", text)
		require.Nil(t, policies, "all or nothing")
	}
}

func TestMistakesBeyondTheBoundAreNotTold(t *testing.T) {
	_, err := core.LoadPolicies(strings.NewReader(strings.Repeat("- \n", 200)))
	list := places(t, err)
	require.Len(t, list, 101)
	require.ErrorContains(t, err, "line 101:2: is where mistake 101 is: the rest is not told")
}
