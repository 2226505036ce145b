package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

const (
	wait = 30 * time.Second
	tick = time.Millisecond
)

// patient is a timeout that no decision reaches on a busy machine: these tests
// are not about slowness.
var patient = redisstore.WithTimeout(10 * time.Second)

// asking turns the deny cache off, so that Redis makes every decision.
var asking = redisstore.WithDenyCache(0)

func keyNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("key-", i)
	}
	return list
}

// An operator's word outlives Redis' memory: what processes have read holds
// without a gap, comes back, and is learnt by a new process.
func TestFlushEndsNoBlock(t *testing.T) {
	beside(t)
	ctx, client := t.Context(), redistest.Start(t).Client(t)
	var lines logtest.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}, OnFailure: core.FailOpen}
	process := func() (*redisstore.Store, *core.Limiter) {
		s := redisstore.New(client, patient, core.WithLogger(logger))
		return s, core.Must(core.NewLimiter(s, policy))
	}
	operator, _ := process()
	following, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { end(); running.Wait() })
	var fleet []*core.Limiter
	for range 2 {
		s, l := process()
		running.Go(func() { s.FollowExceptions(following, l) })
		fleet = append(fleet, l)
	}
	blocks := func(n int) func() bool {
		return func() bool {
			return len(fleet[0].Exceptions().Blocked) == n && len(fleet[1].Exceptions().Blocked) == n
		}
	}
	require.NoError(t, operator.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	require.Eventually(t, blocks(1), wait, tick, "premise: the processes follow")
	require.NoError(t, operator.SetException(ctx, "api", redisstore.Exception{Key: "eve", By: "bob", Reason: "scraper"}))
	_, err := operator.RemoveException(ctx, "api", "ann", "", "")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return blocks(1)() && fleet[0].Exceptions().Blocked[0] == "eve" && fleet[1].Exceptions().Blocked[0] == "eve"
	}, wait, tick, "premise: both know the last words")

	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	var admitted atomic.Int64
	for _, l := range fleet {
		asked.Go(func() {
			for asking.Err() == nil {
				if res, err := l.Allow(ctx, "eve"); err != nil || res.Allowed {
					admitted.Add(1)
				}
				time.Sleep(tick)
			}
		})
	}
	require.NoError(t, client.FlushAll(ctx).Err())
	require.Eventually(t, func() bool {
		list, err := operator.Exceptions(ctx, "api")
		return err == nil && len(list) == 1 && list[0].Key == "eve"
	}, 2*wait, tick, "a process puts the newest words back")
	stop()
	asked.Wait()
	assert.Zero(t, admitted.Load(), "a block holds without a gap")
	require.Eventually(t, func() bool { return lines.Count("and was put back") > 0 }, wait, tick, "the loss is logged")
	assert.Equal(t, 1, lines.Count("and was put back"), "the loss is logged once: %s", lines.String())
	assert.NotContains(t, lines.String(), "was: eve", "and not as if it was removed")

	s, newcomer := process()
	require.NoError(t, s.ReadExceptions(ctx, newcomer))
	assert.Equal(t, []string{"eve"}, newcomer.Exceptions().Blocked, "a process that starts then learns it from Redis")
	note := newcomer.Exceptions().BlockNotes["eve"]
	assert.Equal(t, []string{"bob", "scraper"}, []string{note.By, note.Reason}, "with its author and reason")
	_, err = operator.RemoveException(ctx, "api", "eve", "", "")
	require.NoError(t, err)
	require.Eventually(t, blocks(0), wait, tick, "an operator's newer word ends it everywhere")
}
