package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

const (
	// slotsOfKey are the slots of one key.
	slotsOfKey = 40
	// oneSlotKeys have one slot each.
	oneSlotKeys = 200
	// takenTokens are the tokens that decisions take, of which the first
	// undoneTokens come back.
	takenTokens, undoneTokens, allTokens = 400, 200, 1000
)

// givesBack are limiters of a store behind a fault, and of one that asks the
// server directly.
type givesBack struct {
	slots, one, tokens, estimates, busy *core.Limiter
}

func givingBack(store core.Store, mode core.FailureMode) (g givesBack) {
	for name, l := range map[string]struct {
		to    **core.Limiter
		limit core.Limit
	}{
		"slots":     {&g.slots, core.InFlight(slotsOfKey).WithMaxHold(time.Hour)},
		"one":       {&g.one, core.InFlight(1).WithMaxHold(time.Hour)},
		"tokens":    {&g.tokens, core.PerDay(allTokens).WithMode(core.Stepped)},
		"estimates": {&g.estimates, core.PerDay(allTokens).WithMode(core.Stepped).WithUnit("tokens").WithMaxHold(time.Hour)},
		"busy":      {&g.busy, core.InFlight(8).WithMaxHold(time.Hour)},
	} {
		*l.to = core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: []core.Limit{l.limit}, OnFailure: mode}))
	}
	return g
}

// remaining is what a key has left.
func remaining(t *testing.T, l *core.Limiter, key string) int64 {
	t.Helper()
	res, err := l.Peek(context.Background(), key)
	require.NoError(t, err)
	return res.Limits()[0].Remaining
}

// take takes units of a key n times.
func take(t *testing.T, l *core.Limiter, n int, key func(i int) string, units core.Units) []core.Result {
	t.Helper()
	list := make([]core.Result, n)
	for i := range list {
		var err error
		list[i], err = l.AllowUnits(context.Background(), key(i), units)
		require.NoError(t, err)
		require.True(t, list[i].Allowed && list[i].Source == core.FromStore, "premise: Redis allows")
	}
	return list
}

// atOnce ends decisions at once. It returns how many calls an open breaker
// refused.
func atOnce(list []core.Result, end func(*core.Result) error) (refused int64) {
	var n atomic.Int64
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() {
			if err := end(&list[i]); errors.Is(err, core.ErrBreakerOpen) {
				n.Add(1)
			}
		})
	}
	all.Wait()
	return n.Load()
}

// What a process returns while Redis is away comes back within two seconds of
// Redis' return, although nobody asks for anything then. Nothing comes back
// twice, and no more slots are out than there are.
func TestWhatIsReturnedDuringAnOutageComesBack(t *testing.T) {
	const quick = "SIGSTOP and SIGCONT"
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			if o.name != quick && *reportFile == "" {
				soak.Only(t, TestWhatIsReturnedDuringAnOutageComesBack) // with quick
			}
			comesBack(t, o)
		})
	}
}

func comesBack(t *testing.T, o outage) {
	t.Helper()
	b := newBench(t)
	prefix := redistest.Prefix()
	// Three times the timeout: a machine that pauses for a moment is no outage
	// yet.
	during := givingBack(redisstore.New(b.client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(3*timeout)), core.FailLocal)
	directly := givingBack(redisstore.New(b.server.Client(t), redisstore.WithPrefix(prefix), patient), core.FailClosed)
	ctx := context.Background()
	same := func(int) string { return "k" }
	oneOf := func(i int) string { return fmt.Sprint("k", i) }

	slots := take(t, during.slots, slotsOfKey, same, core.Units{core.Requests: 1})
	one := take(t, during.one, oneSlotKeys, oneOf, core.Units{core.Requests: 1})
	tokens := take(t, during.tokens, takenTokens, same, core.Units{core.Requests: 1})
	estimates := take(t, during.estimates, takenTokens, same, core.Units{"tokens": 2})

	o.begin(t, b)
	stop := make(chan struct{})
	var load sync.WaitGroup
	var out, most atomic.Int64
	for range 16 { // twice the slots
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := during.busy.Allow(ctx, "k")
				if err == nil && res.Allowed && res.Source == core.FromStore {
					n := out.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					out.Add(-1)
				}
				_ = res.Release(ctx)
			}
		})
	}
	// Half of it is returned while the breaker is closed, and half while it is
	// open.
	var refusedTokens, refusedEstimates int64
	settle := func(r *core.Result) error { return r.Settle(ctx, core.Units{"tokens": 1}) }
	release, undo := func(r *core.Result) error { return r.Release(ctx) }, func(r *core.Result) error { return r.Undo(ctx) }
	for half := range 2 {
		part := func(list []core.Result, n int) []core.Result { return list[half*n/2 : (half+1)*n/2] }
		atOnce(part(slots, slotsOfKey), release)
		atOnce(part(one, oneSlotKeys), release)
		refusedTokens += atOnce(part(tokens, undoneTokens), undo)
		refusedEstimates += atOnce(part(estimates, undoneTokens), settle)
		require.Eventually(t, func() bool {
			res, err := during.one.Allow(ctx, "other")
			_ = res.Release(ctx)
			return err == nil && (errors.Is(res.Cause, core.ErrBreakerOpen) || o.name == "memory full, noeviction" && res.Cause != nil) // which answers denials
		}, wait, tick, "failures in a row must open the breaker")
	}
	time.Sleep(time.Duration(soak.Budget(0, 3)) * time.Second) // the outage goes on
	close(stop)
	load.Wait()

	o.end(t, b)
	start := time.Now()
	forgets := remaining(t, directly.tokens, "k") == allTokens && o.forgets()
	bound := wait
	if *reportFile != "" {
		bound = 2 * time.Second
	}
	require.Eventually(t, func() bool {
		if remaining(t, directly.slots, "k") < slotsOfKey || remaining(t, directly.busy, "k") < 8 || remaining(t, directly.one, "other") < 1 {
			return false
		}
		for i := range oneSlotKeys {
			if remaining(t, directly.one, oneOf(i)) < 1 {
				return false
			}
		}
		return forgets || remaining(t, directly.tokens, "k") >= allTokens-takenTokens+refusedTokens &&
			remaining(t, directly.estimates, "k") >= allTokens-2*takenTokens+refusedEstimates
	}, bound, 10*time.Millisecond, "all that was released, and all that an open breaker refused, must come back")
	t.Logf("%s: all is back after %v; an open breaker refused %d of %d undos and %d settlements", o.name, time.Since(start), refusedTokens, undoneTokens, refusedEstimates)
	assert.LessOrEqual(t, most.Load(), int64(8), "Redis admits no more than the slots")
	if forgets {
		return
	}
	assert.LessOrEqual(t, remaining(t, directly.tokens, "k"), int64(allTokens-takenTokens+undoneTokens), "an undo returns its token once")
	assert.LessOrEqual(t, remaining(t, directly.estimates, "k"), int64(allTokens-2*takenTokens+undoneTokens), "a settlement returns what was too much once")
}
