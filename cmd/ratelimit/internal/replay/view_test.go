package replay_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/core"
)

// planned is a policy with plans, overrides, a factor, and a limit that only a
// plan has.
func planned() core.Policy {
	return core.Policy{
		Name:   "api",
		Limits: []core.Limit{core.PerMinute(10).WithName("minute"), core.PerHour(100), core.InFlight(5).WithName("slots")},
		Plans: map[string][]core.Limit{
			"pro":   {core.PerMinute(30).WithName("minute"), core.PerHour(300).WithName("api-1h"), core.PerSecond(3).WithName("second")},
			"trial": {core.PerMinute(2).WithName("minute")},
		},
		Overrides: map[string][]core.Limit{
			"user:u1": {core.PerMinute(20).WithName("minute")}, "user:u2": {core.Limit{Times: 2}}, "user:u3": {core.PerHour(50)},
			"user:u4": {core.Limit{Times: 3}.WithName("slots"), core.Limit{Times: 4}.WithName("second")},
		},
	}
}

// Each request is decided by its plan, as a limiter of the plan decides it,
// also when a client changes plans; and is counted with it.
func TestPlansAreReplayed(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		var log strings.Builder
		log.WriteString("time,user,plan\n")
		now := time.Time{}
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(func() time.Time { return now })), planned()))
		requests, denied, clients := map[string]int64{}, map[string]int64{}, map[string]map[string]bool{}
		plans := map[string]string{}
		at := time.Unix(1772409600, 0)
		for range 4000 {
			at = at.Add(time.Duration(r.IntN(600)) * time.Millisecond)
			user := fmt.Sprintf("u%d", r.IntN(8))
			if _, ok := plans[user]; !ok || r.IntN(200) == 0 {
				plans[user] = []string{"", "pro", "trial", "gold"}[r.IntN(4)]
			}
			fmt.Fprintf(&log, "%d.%06d,%s,%s\n", at.Unix(), at.Nanosecond()/1000, user, plans[user])
			now = at
			name := plans[user]
			if name == "gold" {
				name = "" // which the policy lacks
			}
			res, err := core.Must(limiter.WithPlan(name)).Allow(t.Context(), "user:"+user)
			require.NoError(t, err)
			name = map[string]string{"": "no plan"}[name] + map[string]string{"pro": "plan pro", "trial": "plan trial"}[name]
			if requests[name]++; clients[name] == nil {
				clients[name] = map[string]bool{}
			}
			if clients[name][user] = clients[name][user] || !res.Allowed; !res.Allowed {
				denied[name]++
			}
			require.NoError(t, res.Release(t.Context()))
		}
		traffic, err := collect(t, log.String(), replay.Options{Key: "user", Plan: "plan"})
		require.NoError(t, err)
		outs, err := traffic.Play(t.Context(), "api", planned(), 0.999, func(int) {})
		require.NoError(t, err)
		require.Len(t, outs, 3)
		for _, out := range outs {
			name := strings.TrimPrefix(out.Label, "api, ")
			n := int64(0)
			for _, of := range clients[name] {
				if of {
					n++
				}
			}
			assert.Equal(t, [4]int64{requests[name], int64(len(clients[name])), denied[name], n}, [4]int64{out.Requests, out.All, out.Denied, out.Clients}, "seed %d, %s", seed, name)
			assert.LessOrEqual(t, len(out.Policy.Limits), 3)
			for _, change := range out.Search.Changes { // of this plan's limits
				assert.Len(t, change.Limits, len(out.Policy.Limits))
				assert.LessOrEqual(t, change.Clients, out.Search.Most)
			}
		}
	}
}

// Plans of keys come from a list too. Without both, a policy's plans play no
// part.
func TestPlansOfKeys(t *testing.T) {
	var log strings.Builder
	log.WriteString("time,user\n")
	for i := range 40 {
		fmt.Fprintf(&log, "%d,%s\n", 1772409600+i/20, []string{"ann", "bob"}[i%2])
	}
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(5)}, Plans: map[string][]core.Limit{"pro": {core.PerHour(15)}}}
	traffic, err := collect(t, log.String(), replay.Options{Key: "user", Plans: map[string]string{"user:bob": "pro"}})
	require.NoError(t, err)
	outs, err := traffic.Play(t.Context(), "api", policy, 1, func(int) {})
	require.NoError(t, err)
	require.Len(t, outs, 2)
	assert.Equal(t, [2]int64{15, 5}, [2]int64{outs[0].Denied, outs[1].Denied})
	assert.Equal(t, "api, plan pro", outs[1].Label)
	require.NotEmpty(t, outs[1].Search.Changes)
	assert.Equal(t, "burst", outs[1].Search.Changes[0].What)
	assert.EqualValues(t, 20, outs[1].Search.Changes[0].Limits[0].Capacity, "what bob sends at once")
	policy.Plans["pro"] = []core.Limit{core.InFlight(1).WithName("api")}
	_, err = traffic.Play(t.Context(), "api", policy, 1, func(int) {})
	assert.ErrorContains(t, err, `plan "pro" has no limit that a log can be replayed through`)

	traffic, err = collect(t, log.String(), replay.Options{Key: "user"})
	require.NoError(t, err)
	outs, err = traffic.Play(t.Context(), "api", policy, 1, func(int) {})
	require.NoError(t, err)
	require.Len(t, outs, 1)
	assert.Equal(t, "api", outs[0].Label)
	assert.EqualValues(t, 30, outs[0].Denied)
}

// An override leaves the limits that it does not name to the policy, so a
// change of these spares its client too.
func TestSearchOfClientsWithOverrides(t *testing.T) {
	log := "time,user\n" + strings.Repeat("1772409600,ann\n", 40)
	traffic, err := collect(t, log, replay.Options{Key: "user"})
	require.NoError(t, err)
	for _, c := range []struct {
		override []core.Limit
		spared   bool
	}{
		{[]core.Limit{core.PerHour(50).WithName("hour")}, true},
		{[]core.Limit{core.Limit{Times: 2}}, true},
		{[]core.Limit{core.PerHour(50).WithName("hour"), core.PerMinute(9).WithName("minute")}, false},
	} {
		outs, err := traffic.Play(t.Context(), "api", core.Policy{
			Name: "api", Limits: []core.Limit{core.PerMinute(10).WithName("minute"), core.PerHour(100).WithName("hour")}, Overrides: map[string][]core.Limit{"user:ann": c.override},
		}, 1, func(int) {})
		require.NoError(t, err)
		require.Positive(t, outs[0].Denied)
		assert.Equal(t, c.spared, len(outs[0].Search.Changes) > 0, "%v", c.override)
		assert.Equal(t, c.spared, outs[0].Search.Overrode == 0, "%v", c.override)
	}
}
