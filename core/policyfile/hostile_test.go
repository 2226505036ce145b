package policyfile_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// repeated repeats a format with the numbers below n.
func repeated(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// nested is mappings below names, a line each, and values below them all.
func nested(name, values int) string {
	var b strings.Builder
	for column := range 99 {
		b.WriteString(strings.Repeat(" ", column) + strings.Repeat("k", name) + ":\n")
	}
	return b.String() + strings.Repeat(" ", 99) + "[" + strings.Repeat("1,", values) + "]\n"
}

// hostile returns files by the rule that each tries. The parser takes the square
// of the nesting and of the fields of a mapping.
func hostile() map[string]string {
	braces := strings.Repeat("{"+strings.Repeat("k", 256)+": ", 7) + "[" + strings.Repeat("1,", 9_800) + "]" + strings.Repeat("}", 7)
	laughs := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		laughs += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat("*"+string(c-1)+",", 8), c-1)
	}
	long := strings.Repeat("0", 200_000)
	policy := func(limits string) string { return "- {name: a, limits: [" + limits + "]}\n" }
	return map[string]string{
		"a billion laughs":                         laughs + "policies: *j\n",
		"merges of merges":                         "- &a {name: a, <<: &b [" + strings.Repeat("*a, ", 30) + "]}\n",
		"a long text over and over":                "- &a [" + strings.Repeat("x", 200_000) + "]\n" + strings.Repeat("- *a\n", 4900),
		"long names by lines above many values":    nested(250, 9_000),
		"names by lines above many values":         nested(10, 9_000),
		"long names in brackets above many values": braces,
		"long names in brackets and lines":         "? a\n" + braces,
		"brackets that are not closed":             strings.Repeat("{a: ", 8),
		"deep nesting":                             strings.Repeat("[", 19_900),
		"deep nesting by lines":                    strings.Repeat("- ", 19_900),
		"only mistakes":                            strings.Repeat("- \n", 300_000),
		"one byte too much":                        strings.Repeat(" ", 1<<18) + "a",
		"values that are missing":                  strings.Repeat("- \n", 19_900),
		"fields without values":                    "{" + strings.Repeat("a,", 9_900) + "}",
		"fields of one mapping":                    repeated("k%d: 1\n", 6_600),
		"the same field of one mapping":            strings.Repeat("k: 1\n", 6_600),
		"fields in brackets":                       "{" + repeated("k%d: 1, ", 4900) + "}",
		"fields with lists":                        repeated("k%d:\n- a\n", 4900),
		"complex keys":                             strings.Repeat("? a\n", 9_900),
		"a long name above many values":            strings.Repeat("k", 1<<17) + ": [" + strings.Repeat("1,", 9_900) + "]",
		"a name as long as may be":                 strings.Repeat("k", 64) + ": [" + strings.Repeat("1,", 9_900) + "]",
		"many documents":                           strings.Repeat("---\n", 19_900),
		"many tags":                                strings.Repeat("!a\n", 19_900),
		"a rate of many digits":                    policy("0.5" + long + "/s"),
		"an interval of many digits":               policy("1/1" + long + "s"),
		"a burst of many digits":                   policy("1/s burst 1" + long),
		"many limits":                              policy(strings.Repeat("1/s,", 9_000)),
		"too many limits":                          policy(strings.Repeat("1/s,", 66_000)),
		"numbers that no double has":               policy("1e999/s, 9007199254740993/s, 1/s burst 9223372036854775808"),
		"numbers that are none":                    policy("NaN/s, Inf/s, 0x10/s"),
		"a share that is none":                     "- {name: a, limits: [1/s], local_share: .nan}\n",
		"a share without end":                      "- {name: a, limits: [1/s], local_share: .inf}\n",
		"a share of many digits":                   "- {name: a, limits: [1/s], local_share: 1" + strings.Repeat("0", 400) + "}\n",
	}
}

// What a file may cost is bounded, whatever is in it.
func TestHostileFiles(t *testing.T) {
	for rule, text := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		_, err := policyfile.Load(strings.NewReader(text))
		runtime.ReadMemStats(&after)
		require.Error(t, err, rule)
		require.LessOrEqual(t, len(mistakes(t, err)), 101, rule)
		require.Less(t, len(err.Error()), 64<<10, rule)
		require.Less(t, time.Since(start), time.Minute, "%s: what the parser takes the square of is bounded", rule)
		most := uint64(512 << 20) // the parser takes the square of the fields of a mapping
		if strings.Contains(rule, "laughs") || strings.Contains(rule, "over and over") {
			most = 64 << 20
		}
		require.Less(t, after.TotalAlloc-before.TotalAlloc, most, "%s: what is kept is bounded by the size of the file", rule)
	}
	_, err := policyfile.Load(endless{})
	require.ErrorContains(t, err, "the file is too large", "an endless reader is left")
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{searchYAML, `{"name":"api","limits":["1\/s"]}`, "&a {name: api, <<: *a}", "- *x", "\t", "a: b: c", "\ufeffname: x", "{name: a, limits: [{}]}", "? []", "a\tb: c", "x <<: {a: b}", "- |\n  1/s\n", "{name:a}", "a: &x [*x]", "!!binary x: y", "name: !foo bar", "{name: a,", "{,", "[{a: [", "a: {b: c,\n", "- &a {? a", "<<: {",
		"[{name: a, limits: [5 at once hold 2m, 8 gpus at once, {5 at once: hold 2m}]}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := policyfile.Load(bytes.NewReader(data))
		if err != nil {
			mistakes(t, err)
			if strings.Contains(err.Error(), "the YAML library failed") {
				t.Fatalf("the YAML library panics for no input that reaches it: %q", data)
			}
		}
		for _, p := range policies {
			if _, err := core.NewLimiter(core.NewMemoryStore(), p); err != nil {
				t.Fatalf("what is read is accepted: %v", err)
			}
		}
	})
}
