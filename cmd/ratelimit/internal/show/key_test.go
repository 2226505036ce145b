package show_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Who waits as long as Wait says has waited enough, and less than one step
// more.
func TestWaitIsNeverTooShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", time.Millisecond: "1 ms", 1500 * time.Microsecond: "2 ms", 999_900 * time.Microsecond: "1 s", 1001 * time.Millisecond: "2 s", 59*time.Second + 1: "1 min",
		61 * time.Second: "1 min 1 s", 2*time.Hour + 13*time.Minute + time.Second: "2 h 14 min", 23*time.Hour + 59*time.Minute + time.Second: "1 d",
		25*time.Hour + 1: "1 d 2 h", 48 * time.Hour: "2 d", 59*time.Minute + 59*time.Second + 1: "1 h",
	} {
		assert.Equal(t, want, show.Wait(d), d)
	}
}

// What is shown of a key means that key and no other: typed, or pasted into a
// shell between single quotes.
func TestAShownKeyIsTakenByAShell(t *testing.T) {
	bytes := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "bytes")) })
	hostile := rapid.SampledFrom([]string{
		"", "-", "-x", "--", `"`, `""`, `"a"`, `"a`, "'", "o'brien", "a\tb", "a\nb", "\u202egnp", "a\u2028b", "a\u200bb", "a\u00adb", "\u3164", "a\ufe0fb", "\U000e0041", "\xff", "\ufffd",
		" a", "a ", "a b", "a  b", "\u00a0", `\x41`, `\`, "$HOME", "`id`", "!!", "*", "~", "a;b", "#a", "\x00", "é", "日本", "e\u0301", "%3A", "{a,b}", "\x7f", "\x1b[2J",
	})
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.OneOf(bytes, rapid.String(), hostile, rapid.StringMatching(`["' -]{1,4}[a-z"' ]{0,3}`)), 50, 50).Draw(t, "keys")
		script := "printf '%s\\0'"
		for _, key := range keys {
			shown := show.Key(key)
			if shown == "" || strings.HasPrefix(shown, "-") || !utf8.ValidString(shown) || strings.ContainsAny(shown, "\t\n'") || strings.Contains(shown, "  ") {
				t.Fatalf("%q is shown as %q, which a table, a flag or a shell reads differently", key, shown)
			}
			script += " '" + shown + "'"
		}
		out, err := exec.Command("bash", "-c", script).Output()
		if err != nil {
			t.Fatal(err)
		}
		for i, pasted := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if key, err := show.GivenKey(pasted); err != nil || key != keys[i] {
				t.Fatalf("%q is shown as %q, and a shell gives %q: %v", keys[i], show.Key(keys[i]), key, err)
			}
		}
	})
	for key, want := range map[string]string{
		"ip:192.0.2.1": "ip:192.0.2.1", "a b": "a b", "é": "é", `a"b`: `a"b`, "o'brien": `"o\x27brien"`, "-x": `"-x"`, "": `""`, "\xff a": `"\xff\x20a"`, "\u3164": `"\u3164"`,
	} {
		assert.Equal(t, want, show.Key(key))
	}
	for _, bad := range []string{`"a"b"`, `"\q"`, "\"a\nb\""} {
		_, err := show.GivenKey(bad)
		require.ErrorIs(t, err, show.ErrQuotes)
	}
}
