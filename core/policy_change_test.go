package core_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// What SetPolicy changed is said limit by limit, in words, and to whoever asked for it.
func TestSetPolicySaysWhatItChanged(t *testing.T) {
	first := core.Policy{
		Name:      "api",
		Limits:    []core.Limit{core.PerMinute(60), core.PerDay(1000).WithName("daily")},
		Overrides: map[string][]core.Limit{"ann": {core.PerMinute(5)}, "bob": {core.PerMinute(5)}},
	}
	edit := func(change func(*core.Policy)) core.Policy {
		p := first
		p.Limits = append([]core.Limit{}, first.Limits...)
		change(&p)
		return p
	}
	for rule, test := range map[string]struct {
		next core.Policy
		want []string
	}{
		"nothing":             {first, nil},
		"a limit":             {edit(func(p *core.Policy) { p.Limits[1] = core.PerDay(2000).WithName("daily") }), []string{`limit "daily": 2000/day, was 1000/day`}},
		"the order of limits": {edit(func(p *core.Policy) { p.Limits[0], p.Limits[1] = p.Limits[1], p.Limits[0] }), []string{"limits: in another order"}},
		"a limit more":        {edit(func(p *core.Policy) { p.Limits = append(p.Limits, core.PerHour(9).WithName("x")) }), []string{`limit "x": 9/h, is new`}},
		"a limit less": {edit(func(p *core.Policy) { p.Limits = p.Limits[:1] }),
			[]string{`limit "api": 60/min, is new`, `limit "api-1m": removed, was 60/min`, `limit "daily": removed, was 1000/day`}},
		"overrides": {edit(func(p *core.Policy) {
			p.Overrides = map[string][]core.Limit{"ann": {core.PerMinute(6)}, "eve": {core.PerMinute(5)}, "joe": {core.PerMinute(5)}}
		}), []string{"overrides: 2 added, 1 removed, 1 changed"}},
		"all else": {edit(func(p *core.Policy) {
			p.OnFailure, p.LocalShare, p.Shadow, p.Headers = core.FailOpen, 0.5, true, core.HeadersNone
		}), []string{"OnFailure: FailOpen, was FailLocal", "LocalShare: 0.5, was 1", "Shadow: true, was false", fmt.Sprintf("Headers: %v, was %v", core.HeadersNone, core.HeadersDefault)}},
		"a share that is the default": {edit(func(p *core.Policy) { p.LocalShare = 1 }), nil},
	} {
		t.Run(rule, func(t *testing.T) {
			var lines bytes.Buffer
			var reply []core.PolicyChange
			l, err := core.NewLimiter(core.NewMemoryStore(), first, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))),
				core.WithPolicyObserver(nil), core.WithPolicyObserver(func(c core.PolicyChange) { reply = append(reply, c) }))
			require.NoError(t, err)
			require.Len(t, reply, 1, "NewLimiter reports the limits that are in force")
			assert.Nil(t, reply[0].Changes)
			assert.Equal(t, "api-1m", reply[0].Limits[0].Name, "each limit has its name")

			require.NoError(t, l.SetPolicy(test.next))
			if test.want == nil {
				assert.Len(t, reply, 1, "no change is reported where there is none")
				assert.Empty(t, lines.String(), "no change is logged where there is none")
				return
			}
			require.Len(t, reply, 2, "each change is reported")
			assert.Equal(t, "api", reply[1].Policy)
			assert.Equal(t, test.want, reply[1].Changes, "what changed, in words")
			assert.Contains(t, lines.String(), `level=INFO msg="ratelimit: the policy has changed" policy=api changes=`)
			for _, change := range test.want {
				assert.Contains(t, strings.ReplaceAll(lines.String(), `\"`, `"`), change, "the log shows each change")
			}
			assert.NotContains(t, lines.String(), "ann", "keys of overrides are not logged")

			require.Error(t, l.SetPolicy(core.Policy{Name: "api"}))
			assert.Len(t, reply, 2, "a refused policy changes nothing")
		})
	}
}

// The last that an observer receives is what is in force, however many goroutines change the policy.
func TestPolicyObserversReceiveChangesInTheirOrder(t *testing.T) {
	var mu sync.Mutex
	var last core.PolicyChange
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1)}},
		core.WithPolicyObserver(func(c core.PolicyChange) { mu.Lock(); defer mu.Unlock(); last = c }))
	require.NoError(t, err)
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 200 {
				assert.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(1 + g*200 + i)}}))
			}
		})
	}
	all.Wait()
	assert.Equal(t, l.Policy().Limits[0].Capacity, last.Limits[0].Capacity, "the last change reported is the policy in force")
}

// A policy change on the store's logger: limiters without one of their own use it.
func TestPolicyChangeIsLoggedByTheStoresLogger(t *testing.T) {
	var lines bytes.Buffer
	store := redisstore.New(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := limittest.Limiter(t, store, "api", core.PerMinute(1))
	require.NoError(t, l.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(2)}}))
	assert.Contains(t, lines.String(), "2/min, was 1/min")
}
