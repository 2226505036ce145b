package redisstore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// brokenHook fails every script until works is set.
type brokenHook struct {
	countingHook
	works atomic.Bool
}

func (h *brokenHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && !h.works.Load() {
			err := errors.New("out of order")
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// The store logs an outage when the breaker opens, and again when all decisions
// have come back for a while.
func TestOutageIsLogged(t *testing.T) {
	client, hook := redistest.Client(t), &brokenHook{}
	client.AddHook(hook)
	var lines logtest.Buffer
	store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithBreaker(5, time.Millisecond),
		core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := limittest.Limiter(t, store, "api", core.PerSecond(1_000_000))
	logged := func(away, back int, when string) {
		t.Helper()
		text := lines.String()
		if strings.Count(text, "RL712") != away || strings.Count(text, "RL713") != back {
			t.Errorf("%s: want %d outages and %d that it is back:\n%s", when, away, back, text)
		}
	}
	fail := func(times int) {
		t.Helper()
		hook.works.Store(false)
		for range times {
			if _, err := l.Allow(t.Context(), "user"); err == nil {
				t.Fatal("premise: the store fails")
			}
		}
	}
	answer := func(enough func() bool) {
		t.Helper()
		hook.works.Store(true)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := l.Allow(t.Context(), "user"); err == nil && enough() {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("Redis is not back: %v\n%s", err, lines.String())
			}
		}
	}
	answer(func() bool { return true })
	logged(0, 0, "no failure yet")
	for outage := range 2 {
		fail(5)
		logged(outage+1, outage, "the breaker has opened")
		fail(5)
		logged(outage+1, outage, "the next failures of the same outage")
		answer(func() bool { return strings.Count(lines.String(), "Redis is back") > outage })
		logged(outage+1, outage+1, "its end")
	}
}

// leaving is a context that ends between the moment a call begins and the
// moment it waits.
type leaving struct {
	context.Context
	asked atomic.Bool
}

func (c *leaving) Err() error {
	if c.asked.Swap(true) {
		return context.Canceled
	}
	return nil
}

func (c *leaving) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// The context of the trial call can end before the call is sent. The breaker
// must then admit another trial.
func TestBreakerAdmitsAnotherTrialAfterACanceledOne(t *testing.T) {
	client, hook := redistest.Client(t), &brokenHook{}
	client.AddHook(hook)
	const pause = 10 * time.Millisecond
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithBreaker(1, pause)), "api", core.PerDay(1000))
	for range 20 {
		hook.works.Store(false)
		for {
			if _, err := l.Allow(t.Context(), "user"); errors.Is(err, core.ErrBreakerOpen) {
				break
			}
		}
		hook.works.Store(true)
		deadline := time.Now().Add(20 * time.Second)
		for {
			_, err := l.Allow(&leaving{Context: t.Context()}, "user")
			if errors.Is(err, context.Canceled) { // the breaker admitted it as the trial
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the breaker admits no trial: %v", err)
			}
		}
		for {
			_, err := l.Allow(t.Context(), "user")
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("after a canceled trial the breaker must admit another: %v", err)
			}
		}
	}
}

// panickingHook panics for every script.
type panickingHook struct{ countingHook }

func (h *panickingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			panic("a hook of the application")
		}
		return next(ctx, cmd)
	}
}

// A panic in the client must not end the process, and must not leave a call in
// flight for ever. So more requests than the store sends calls at once must all
// be answered.
func TestPanicInTheClientIsAFailure(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), ContextTimeoutEnabled: true})
	defer client.Close()
	client.AddHook(&panickingHook{})
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithBreaker(1000, time.Second)), "api", core.PerDay(10))
	for range 20 {
		if _, err := l.Allow(context.Background(), "user"); !errors.Is(err, core.ErrUnavailable) {
			t.Fatalf("Allow with a client that panics = %v, want ErrUnavailable", err)
		}
		if _, err := l.Allow(t.Context(), "user"); !errors.Is(err, core.ErrUnavailable) {
			t.Fatalf("Allow with a client that panics = %v, want ErrUnavailable", err)
		}
	}
}
