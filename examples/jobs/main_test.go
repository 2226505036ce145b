package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

func queueOf(mails ...mail) <-chan mail {
	queue := make(chan mail, len(mails))
	for _, m := range mails {
		queue <- m
	}
	close(queue)
	return queue
}

func TestMailsWaitForTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, sent := time.Now(), []time.Duration{}
		err := app(core.NewMemoryStore()).work(t.Context(), queueOf(mail{1, 5}, mail{2, 1}, mail{3, 5}), func(mail) {
			sent = append(sent, time.Since(start).Round(time.Millisecond))
		})
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, 200 * time.Millisecond, 1200 * time.Millisecond}, sent)
	})
}

func TestAWorkerEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		sent := 0
		err := app(core.NewMemoryStore()).work(ctx, queueOf(mail{1, 5}, mail{2, 5}), func(mail) { sent++ })
		require.ErrorContains(t, err, "mail 2 is not sent")
		assert.Equal(t, 1, sent)
	})
}

// While Redis is away no mail is sent, and then all are.
func TestNoMailIsLostInAnOutage(t *testing.T) {
	server := redistest.Start(t)
	store, err := redisstore.Open("redis://" + server.Addr)
	require.NoError(t, err)
	defer store.Close()
	server.Kill()
	sent, done := make(chan mail, 3), make(chan error)
	lost := make(chan struct{})
	outage := core.WithObserver(func(_ context.Context, o core.Observation) {
		if o.Err != nil {
			select {
			case lost <- struct{}{}:
			default:
			}
		}
	})
	go func() {
		done <- app(store, outage).work(t.Context(), queueOf(mail{1, 1}, mail{2, 1}, mail{3, 1}), func(m mail) { sent <- m })
	}()
	<-lost // the premise: Redis was asked
	assert.Empty(t, sent)
	server.Restart(t)
	require.NoError(t, <-done)
	assert.Len(t, sent, 3)
}

func TestTheProgramEndsAtSIGTERM(t *testing.T) {
	p := hostile.Launch(t)
	require.Eventually(t, func() bool { return strings.Contains(p.Log.String(), "mail 3 ") }, time.Minute, 10*time.Millisecond)
	p.Terminate(t)
	p.Wait(t)
	assert.NotContains(t, p.Log.String(), "mail 14 ")
}

func TestAWrongAddressOfRedisEndsTheProgram(t *testing.T) {
	assert.Contains(t, hostile.Fail(t, "REDIS_URL=localhost:6379").Log.String(), "REDIS_URL")
}
