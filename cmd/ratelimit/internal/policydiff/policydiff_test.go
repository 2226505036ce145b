package policydiff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/policydiff"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// compare returns the changes between two files, one on a line.
func compare(t *testing.T, before, after string) []policydiff.Change {
	t.Helper()
	load := func(text string) map[string]core.Policy {
		policies, err := policyfile.Load(strings.NewReader(text))
		require.NoError(t, err, text)
		return policies
	}
	changes, err := policydiff.Compare(load(before), load(after), func(key string) string { return "<" + key + ">" })
	require.NoError(t, err)
	return changes
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		before, after string
		want          []string // effect, and what the line has
	}{
		{"- {name: a, limits: [60/min]}", "- {name: a, limits: [60/min burst 60]}", nil},
		{"- {name: a, limits: [60/min]}", "- {name: a, limits: [60/min name a]}", nil}, // the name that it has already
		{"- {name: a, limits: [100/min]}", "- {name: a, limits: [100/min burst 80]}", []string{"cut a, limit a: 100/min burst 80, was 100/min: what was used stays used. A client that has used 70 of 100 had 30 left, and has 10"}},
		{"- {name: a, limits: [60/min]}", "- {name: a, limits: [60/min burst 90]}", []string{"raise a, limit a: 60/min burst 90, was 60/min: 30 more at once"}},
		{"- {name: a, limits: [60/min burst 9]}", "- {name: a, limits: [30/min burst 9]}", []string{"cut at 0.5 of the rate"}},
		{"- {name: a, limits: [60/min burst 9]}", "- {name: a, limits: [2/s burst 9]}", []string{"raise 2 times as fast", "other at other times"}},
		{"- {name: a, limits: [60/min]}", "- {name: a, limits: [60/min, 100/day]}", []string{"rename a, limit a: its bucket is a-1m now", "new a, limit a-24h: is new: 100/day"}},
		{"- {name: a, limits: [60/min name x, 100/day]}", "- {name: a, limits: [60/min name y, 100/day]}", []string{"rename give the limit the name x"}},
		{"- {name: a, limits: [60/min name x, 100/day]}", "- {name: a, limits: [100/day name a-24h]}", []string{"remove a, limit x: is gone"}},
		{"- {name: a, limits: [5/s name n]}", "- {name: a, limits: [5 at once name n]}", []string{"rename slots and tokens are buckets of their own"}},
		{"- {name: a, limits: [60/min]}", "- {name: b, limits: [60/min]}", []string{"rename a: is b now"}},
		{"- {name: a, limits: [60/min]}", "- {name: b, limits: [61/min]}", []string{"remove a: is gone", "new b: is new"}},
		{"- {name: a, limits: [60/min], shadow: true}", "- {name: a, limits: [60/min], on_failure: open, local_share: 0.5, headers: none}",
			[]string{"cut is enforced from now on", "other on_failure: FailOpen, was FailLocal", "other local_share: 0.5, was 1", "other header fields"}},
		{"- {name: a, limits: [60/min]}", "- {name: a, limits: [60/min], overrides: {k: [90/min]}}", []string{"raise a for <k>, limit a: 90/min, was 60/min: 30 more", "raise 1.5 times", "other has an override now"}},
		{"- {name: a, limits: [60/min], overrides: {k: [90/min]}}", "- {name: a, limits: [70/min], overrides: {k: [90/min]}}", []string{"raise a, limit a: 70/min", "raise a, limit a: 70/min"}},
		{"- {name: a, limits: [60/min], plans: {pro: [90/min]}}", "- {name: a, limits: [60/min], plans: {pro: [70/min]}}",
			[]string{"cut a, plan pro, limit a: 70/min, was 90/min", "cut at 0.778 of the rate"}},
		{"- {name: a, limits: [60/min]}", "- {name: a, limits: [60/min], plans: {pro: [90/min]}}", []string{"new a, plan pro: is new: 90/min"}},
		{"- {name: a, limits: [60/min], plans: {pro: [90/min burst 60]}}", "- {name: a, limits: [60/min]}",
			[]string{"cut a, plan pro, limit a", "remove a, plan pro: is gone: its customers have the limits of the policy"}},
		{"- {name: a, limits: [60/min], blocked: [k]}", "- {name: a, limits: [60/min], blocked: [m]}", []string{"cut a for <m>: is blocked", "raise a for <k>: is no longer blocked"}},
		{"- {name: a, limits: [100/day aligned]}", "- {name: a, limits: [100/day in Europe/Berlin]}", []string{"other at other times"}},
	} {
		changes := compare(t, c.before, c.after)
		if assert.Len(t, changes, len(c.want), "%s → %s: %v", c.before, c.after, changes) {
			for i, want := range c.want {
				effect, says, _ := strings.Cut(want, " ")
				assert.Equal(t, effect, changes[i].Effect, "%s → %s", c.before, c.after)
				assert.Contains(t, changes[i].String(), says, "%s → %s", c.before, c.after)
			}
		}
	}
}

// What the lines say about cuts, raises and renames is what a limiter does
// whose policy changes so.
func TestWhatIsSaidIsTrue(t *testing.T) {
	one := func(text string) core.Policy {
		p, err := policyfile.Parse([]byte(text))
		require.NoError(t, err)
		return p
	}
	for _, c := range []struct {
		after string
		left  int64
		says  string
	}{
		{"{name: a, limits: [100/day burst 80]}", 10, fmt.Sprintf("had %d left, and has %d", 30, 10)},
		{"{name: a, limits: [100/day burst 50]}", 0, "and has 0"},
		{"{name: a, limits: [100/day burst 150]}", 80, "50 more at once"},
		{"{name: a, limits: [100/day name other]}", 100, "all clients start with a full one"},
		{"{name: a, limits: [100/day name other, 9999/s name second]}", 100, "all clients start with a full one"},
	} {
		before := "{name: a, limits: [100/day]}"
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), one(before)))
		res, err := limiter.AllowN(t.Context(), "k", 70)
		require.NoError(t, err)
		require.EqualValues(t, 30, res.Remaining)
		require.NoError(t, limiter.SetPolicy(one(c.after)))
		res, err = limiter.Peek(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, c.left, res.Remaining, c.after)
		assert.Contains(t, compare(t, "- "+before, "- "+c.after)[0].Text, c.says, c.after)
	}
}
