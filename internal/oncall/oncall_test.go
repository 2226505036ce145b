package oncall_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// Who waits as long as Wait says has waited enough, and less than one step
// more.
func TestWaitIsNeverTooShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", time.Millisecond: "1 ms", 1500 * time.Microsecond: "2 ms", 999_900 * time.Microsecond: "1 s", 1001 * time.Millisecond: "2 s", 59*time.Second + 1: "1 min",
		61 * time.Second: "1 min 1 s", 2*time.Hour + 13*time.Minute + time.Second: "2 h 14 min", 23*time.Hour + 59*time.Minute + time.Second: "1 d",
		25*time.Hour + 1: "1 d 2 h", 48 * time.Hour: "2 d", 59*time.Minute + 59*time.Second + 1: "1 h",
	} {
		assert.Equal(t, want, oncall.Wait(d), d)
	}
}

func TestSentences(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), core.Policy{Name: "api", Limits: []core.Limit{
		core.PerHour(1).WithBurst(5).WithName("burst"), core.PerDay(20).WithUnit("tokens").WithName("budget"),
	}}))
	says := func(units core.Units) string {
		res, err := l.PeekUnits(t.Context(), "k", units)
		require.NoError(t, err)
		return oncall.Says(res, false)
	}
	one := oncall.RulesOf(l).Request("k")
	assert.Equal(t, core.Units{core.Requests: 1, "tokens": 1}, one, "a request takes one of each unit")
	assert.Equal(t, "allowed: full", says(one))
	_, err := l.AllowUnits(t.Context(), "k", core.Units{core.Requests: 2, "tokens": 1})
	require.NoError(t, err)
	assert.Equal(t, "allowed: 3 of 5 tokens left of burst", says(one))
	assert.Equal(t, "denied: burst has 3 tokens left, 4 tokens in 1 h", says(core.Units{core.Requests: 4}))
	assert.Equal(t, "denied: 6 is more than burst can ever have: its capacity is 5", says(core.Units{core.Requests: 6}))
	require.NoError(t, l.Debit(t.Context(), "k", 3))
	assert.Equal(t, "denied: burst is used up, next token in 1 h", says(one))
	now = now.Add(-20 * time.Second)
	require.NoError(t, l.Debit(t.Context(), "k", 2))
	assert.Equal(t, "denied: burst owes 2 tokens, next token in 3 h", says(one))
	assert.Equal(t, "not known: the store does not answer", oncall.Says(core.Result{}, false))

	slots := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "jobs", Limits: []core.Limit{core.InFlight(3)}}))
	_, err = slots.Allow(t.Context(), "k")
	require.NoError(t, err)
	res, err := slots.PeekUnits(t.Context(), "k", core.Units{core.Requests: 1})
	require.NoError(t, err)
	assert.Equal(t, "allowed: 2 of 3 slots left of jobs", oncall.Says(res, false))
}

func TestStoredKeyTakesHashesAsTheyAre(t *testing.T) {
	long := strings.Repeat("x", 200)
	hash := store.Key(long)
	for _, given := range []string{long, hash} {
		assert.Equal(t, hash, oncall.StoredKey(given))
	}
	assert.Equal(t, "k", oncall.StoredKey("k"))
	assert.Equal(t, store.Key("sha256:x"), oncall.StoredKey("sha256:x"), "what is no hash is a key of an app")
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
			shown := oncall.ShownKey(key)
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
			if key, err := oncall.GivenKey(pasted); err != nil || key != keys[i] {
				t.Fatalf("%q is shown as %q, and a shell gives %q: %v", keys[i], oncall.ShownKey(keys[i]), key, err)
			}
		}
	})
	for key, want := range map[string]string{
		"ip:192.0.2.1": "ip:192.0.2.1", "a b": "a b", "é": "é", `a"b`: `a"b`, "o'brien": `"o\x27brien"`, "-x": `"-x"`, "": `""`, "\xff a": `"\xff\x20a"`, "\u3164": `"\u3164"`,
	} {
		assert.Equal(t, want, oncall.ShownKey(key))
	}
	for _, bad := range []string{`"a"b"`, `"\q"`, "\"a\nb\""} {
		_, err := oncall.GivenKey(bad)
		require.ErrorIs(t, err, oncall.ErrQuotes)
	}
}
