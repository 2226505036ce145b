package oncall_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// What is in force is listed with all that is known of it, and counted with
// what the policy says.
func TestExceptionsOfALimiter(t *testing.T) {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerHour(5)}, Blocked: []string{"eve", "bob"}, Overrides: map[string][]core.Limit{"ann": {core.PerHour(50)}, "zoe": {core.PerHour(9)}},
	}))
	require.NoError(t, l.SetExceptions(core.Exceptions{
		Overrides: map[string][]core.Limit{"ann": {core.PerHour(70)}, "bob": {core.Limit{Times: 2}, core.PerHour(3).WithName("api")}}, Blocked: []string{"mallory", "ann"},
		OverrideNotes: map[string]store.ExceptionNote{"bob": {By: "kim", Reason: "launch", Until: now.Add(time.Hour)}, "nobody": {By: "x"}},
		BlockNotes:    map[string]store.ExceptionNote{"ann": {By: "a\x1b[2J", Reason: "<b>\u202e"}},
	}))
	x := oncall.ExceptionsOf(l, now, strings.ToUpper)
	assert.Equal(t, []oncall.Exception{
		{Key: "ANN", Limits: []string{"70/h"}},
		{Key: "ANN", Blocked: true, By: "a\x1b[2J", Reason: "<b>\u202e"},
		{Key: "BOB", Limits: []string{"x2", "3/h name api"}, EndsIn: 3600, By: "kim", Reason: "launch"},
		{Key: "MALLORY", Blocked: true},
	}, x.List)
	assert.Equal(t, "2 overrides and 2 blocks", x.Counts())
	rules := oncall.RulesOf(l)
	overrides, blocked := rules.Count()
	assert.Equal(t, []int{3, 4}, []int{overrides, blocked}, "ann, bob and zoe have limits of their own; an operator's override does not lift the policy's block of bob")
	assert.Equal(t, `denied: an operator blocks this key ("a\x1b[2J": "<b>\u202e")`, rules.Blocked("ann"), "nothing steers a terminal")
	assert.Equal(t, "denied: an operator blocks this key", rules.Blocked("mallory"))
	assert.Equal(t, "denied: the policy blocks this key", rules.Blocked("eve"))
	assert.Equal(t, "denied: the policy blocks this key", rules.Blocked("bob"))
	assert.Equal(t, `kim until 2026-03-02 13:00:00 UTC: "launch"`, oncall.About(l.Exceptions().OverrideNotes["bob"]))
}

// How exceptions are learnt is said for each way, and what is old is called so.
func TestReadingOfExceptions(t *testing.T) {
	now := time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	for _, test := range []struct {
		f     store.Following
		says  string
		stale bool
	}{
		{store.Following{}, "not followed: what operators write into Redis changes nothing here", true},
		{store.Following{Since: at(time.Hour)}, "never read: Redis has not answered since the service follows them", true},
		{store.Following{Since: at(time.Hour), Read: at(30 * time.Second), Version: 1}, "read 30 s ago", false},
		{store.Following{Since: at(time.Hour), Read: at(2 * time.Minute), Version: 1}, "read 2 min ago", true},
		{store.Following{Since: at(time.Hour), Read: at(-time.Second)}, "read 1 s ago", false},
		{store.Following{Read: at(time.Hour)}, "read once, 1 h ago, and not followed since", true},
	} {
		l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}}))
		l.SetFollowing(test.f)
		x := oncall.ExceptionsOf(l, now, strings.ToUpper)
		assert.Equal(t, test.says, x.Reading())
		assert.Equal(t, test.stale, x.Stale(), test.says)
	}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}}))
	require.NoError(t, l.SetExceptions(core.Exceptions{Blocked: []string{"ann"}}))
	assert.Equal(t, "set by the service itself, and not followed in Redis", oncall.ExceptionsOf(l, now, strings.ToUpper).Reading())
	assert.Equal(t, "no version", oncall.VersionText(0))
	assert.Equal(t, "version 2026-03-02 12:00:00 UTC", oncall.VersionText(now.UnixMicro()))
}
