package policyfile_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// bomb is a list of a long policy and of aliases of it.
func bomb() string {
	return "- &p {name: a, limits: &l [" + strings.Repeat("1/s, ", 7000) + "]}\n" + strings.Repeat("- *p\n", 1900)
}

// laughs are lists of nine aliases of the list before.
func laughs() string {
	text := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		text += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat("*"+string(c-1)+",", 8), c-1)
	}
	return text
}

// ladder is mappings below long names, each an alias of the one before.
func ladder(steps, name int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {}\n")
	for i := 1; i <= steps; i++ {
		fmt.Fprintf(&b, "a%d: &a%d {%s: *a%d}\n", i, i, strings.Repeat("k", name), i-1)
	}
	return b.String()
}

func nested(name, values int) string {
	var b strings.Builder
	for column := range 99 {
		b.WriteString(strings.Repeat(" ", column) + strings.Repeat("k", name) + ":\n")
	}
	return b.String() + strings.Repeat(" ", 99) + "[" + strings.Repeat("1,", values) + "]\n"
}

// hostile returns files by the rule that each tries.
func hostile() map[string]string {
	braces := strings.Repeat("{"+strings.Repeat("k", 256)+": ", 7) + "[" + strings.Repeat("1,", 9_800) + "]" + strings.Repeat("}", 7)
	return map[string]string{
		"long names above aliases of aliases":      ladder(200, 250),
		"more long names above aliases of aliases": ladder(450, 250),
		"short names above aliases of aliases":     ladder(2400, 1),
		"a long list below long names of aliases":  ladder(8, 250) + "b: [" + strings.Repeat("*a8,", 3000) + "]\n",
		"long names by lines above many values":    nested(250, 9_000),
		"names by lines above many values":         nested(10, 9_000),
		"long names in brackets above many values": braces,
		"long names in brackets and lines":         "? a\n" + braces,
		"an anchor over and over below long names": "- &a {" + strings.Repeat("n", 250) + ": [" + strings.Repeat("1,", 500) + "]}\n- [" + strings.Repeat("*a,", 6000) + "]\n",
		"brackets that are not closed":             strings.Repeat("{a: ", 8),
		"a list of one policy over and over":       bomb(),
		"a billion laughs":                         laughs() + "policies: *j\n",
		"merges of merges":                         "- &a {name: a, <<: &b [" + strings.Repeat("*a, ", 30) + "]}\n",
		"a long text over and over":                "- &a [" + strings.Repeat("x", 200_000) + "]\n" + strings.Repeat("- *a\n", 4900),
		"merges of a long list":                    "- &a [" + strings.Repeat("{},", 3000) + "]\n- {" + strings.Repeat("<<: *a, ", 1800) + "}\n",
		"deep nesting":                             strings.Repeat("[", 19_900),
		"only mistakes":                            strings.Repeat("- \n", 300_000),
		"one byte too much":                        strings.Repeat(" ", 1<<18) + "a",
		"deep nesting by lines":                    strings.Repeat("- ", 19_900),
		"values that are missing":                  strings.Repeat("- \n", 19_900),
		"fields without values":                    "{" + strings.Repeat("a,", 9_900) + "}",
		"fields of one mapping":                    strings.Repeat("k: 1\n", 6_600),
		"other fields of one mapping":              numbered("k%d: 1\n", 6_600),
		"fields in brackets":                       "{" + numbered("k%d: 1, ", 4900) + "}",
		"fields with lists":                        strings.Repeat("k:\n- a\n", 4900),
		"other fields with lists":                  numbered("k%d:\n- a\n", 4900),
		"complex keys":                             strings.Repeat("? a\n", 9_900),
		"a long name above many values":            strings.Repeat("k", 1<<17) + ": [" + strings.Repeat("1,", 9_900) + "]",
		"a name as long as may be":                 strings.Repeat("k", 64) + ": [" + strings.Repeat("1,", 9_900) + "]",
		"many documents":                           strings.Repeat("---\n", 19_900),
		"many anchors":                             strings.Repeat("&a\n", 9_900),
		"many tags":                                strings.Repeat("!a\n", 19_900),
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
		if strings.Contains(rule, "alias") || strings.Contains(rule, "over and over") {
			most = 64 << 20
		}
		require.Less(t, after.TotalAlloc-before.TotalAlloc, most, "%s: what is kept is bounded by the size of the file", rule)
		t.Logf("%s: %v, %d KB allocated for %d KB, %.100q", rule, time.Since(start), (after.TotalAlloc-before.TotalAlloc)>>10, len(text)>>10, err)
	}
	read := &countingReader{}
	_, err := policyfile.Load(read)
	require.ErrorContains(t, err, "the file is too large")
	require.LessOrEqual(t, read.n, 2<<20, "an endless reader is left")
}

// numbered repeats a format with the numbers below n.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

type countingReader struct{ n int }

func (r *countingReader) Read(p []byte) (int, error) {
	r.n += len(p)
	return copy(p, bytes.Repeat([]byte(" "), len(p))), nil
}

var _ io.Reader = (*countingReader)(nil)

// Extreme numbers and long lists are refused, and soon.
func TestExtremePolicies(t *testing.T) {
	long := strings.Repeat("0", 400_000)
	for _, text := range []string{
		"- {name: a, limits: [0.5" + long + "/s]}\n",
		"- {name: a, limits: [1/1" + long + "s]}\n",
		"- {name: a, limits: [1/s burst 1" + long + "]}\n",
		"- {name: a, limits: [" + strings.Repeat("1/s,", 66_000) + "]}\n",
		"- {name: a, limits: [" + strings.Repeat("1/s,", 9_000) + "]}\n",
		"- {name: a, limits: [1e999/s]}\n",
		"- {name: a, limits: [9007199254740993/s]}\n",
		"- {name: a, limits: [1/s burst 9223372036854775808]}\n",
		"- {name: a, limits: [NaN/s, Inf/s, 0x10/s]}\n",
		"- {name: a, limits: [1/s], local_share: .nan}\n",
		"- {name: a, limits: [1/s], local_share: .inf}\n",
		"- {name: a, limits: [1/s], local_share: 1" + strings.Repeat("0", 400) + "}\n",
	} {
		began := time.Now()
		_, err := policyfile.Load(strings.NewReader(text))
		require.Error(t, err, "%.60s", text)
		require.Less(t, time.Since(began), time.Minute)
	}
}

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
