package redisstore_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// hooked returns a client of the shared server with a hook, and options of a
// store on it with a prefix of its own.
func hooked(t *testing.T, of string, do func(cmd redis.Cmder, send func() error) error) *redis.Client {
	t.Helper()
	client := redistest.Client(t)
	client.AddHook(redisstore.Hook{Of: of, Do: do})
	return client
}

// breakable returns a client whose scripts fail while broken is set.
func breakable(t *testing.T) (client *redis.Client, broken *atomic.Bool) {
	t.Helper()
	broken = new(atomic.Bool)
	return hooked(t, "eval", func(_ redis.Cmder, send func() error) error {
		if broken.Load() {
			return errors.New("out of order")
		}
		return send()
	}), broken
}

// storeOn returns a store with a prefix of its own, which waits for long.
func storeOn(client redis.UniversalClient, options ...redisstore.Option) *redisstore.Store {
	return redisstore.New(client, append([]redisstore.Option{redisstore.WithPrefix(redistest.Prefix()), longTimeout}, options...)...)
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
	client, broken := breakable(t)
	l := limittest.Limiter(t, storeOn(client, redisstore.WithBreaker(1, 10*time.Millisecond)), "api", core.PerDay(1000))
	until := func(rule string, ctx func() context.Context, done func(error) bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := l.Allow(ctx(), "user")
			return done(err)
		}, 20*time.Second, time.Microsecond, rule)
	}
	for range 20 {
		broken.Store(true)
		until("premise: the breaker opens", t.Context, func(err error) bool { return errors.Is(err, core.ErrBreakerOpen) })
		broken.Store(false)
		until("the breaker admits a trial", func() context.Context { return &leaving{Context: t.Context()} },
			func(err error) bool { return errors.Is(err, context.Canceled) })
		until("after a canceled trial the breaker must admit another", t.Context, func(err error) bool { return err == nil })
	}
}

// A panic in the client must not end the process, and must not leave a call in
// flight for ever. So more requests than the store sends calls at once must all
// be answered.
func TestPanicInTheClientIsAFailure(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Addr(t), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	for _, command := range []string{"eval", "del"} { // of decisions, and of Reset
		client.AddHook(redisstore.Hook{Of: command, Do: func(redis.Cmder, func() error) error { panic("a hook of the application") }})
	}
	l := limittest.Limiter(t, storeOn(client, redisstore.WithBreaker(1000, time.Second)), "api", core.PerDay(10))
	for range 20 {
		for _, ctx := range []context.Context{context.Background(), t.Context()} {
			_, err := l.Allow(ctx, "user")
			require.ErrorIs(t, err, core.ErrUnavailable)
		}
		require.ErrorIs(t, l.Reset(t.Context(), "user"), core.ErrUnavailable)
	}
}

// The line of an outage shows what is wrong, as Ping does, why there is no
// connection, and the server's address.
func TestOutageLineShowsWhyThereIsNoConnection(t *testing.T) {
	port, err := redistest.FreePort()
	require.NoError(t, err)
	for name, retries := range map[string]int{"go-redis' default": 0, "DialerRetries 1": 1} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, ContextTimeoutEnabled: true, DialerRetries: retries})
			defer client.Close()
			var lines logtest.Buffer
			l := limittest.Limiter(t, storeOn(client, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))), "api", core.PerDay(1000))
			require.Eventually(t, func() bool {
				_, err := l.Allow(t.Context(), "k")
				return err != nil && lines.Count("RL712") > 0
			}, time.Minute, time.Millisecond, "an outage is logged")
			for _, want := range []string{"ratelimit: Redis does not answer;", "connect: connection refused", "server=redis://127.0.0.1:" + port} {
				assert.Contains(t, lines.String(), want)
			}
		})
	}
}

// replied is an error that a server replied.
type replied string

func (e replied) Error() string { return string(e) }
func (replied) RedisError()     {}

// failsOnce returns a client of which the next script fails with the error that
// is stored.
func failsOnce(t *testing.T) (client *redis.Client, next *atomic.Pointer[error]) {
	t.Helper()
	next = new(atomic.Pointer[error])
	return hooked(t, "eval", func(_ redis.Cmder, send func() error) error {
		if err := next.Swap(nil); err != nil {
			return *err
		}
		return send()
	}), next
}

// One failed call is no outage, and its end is no return.
func TestOneFailedCallIsNoOutage(t *testing.T) {
	for _, single := range []error{io.EOF, context.DeadlineExceeded, replied("OOM command not allowed when used memory > 'maxmemory'.")} {
		client, next := failsOnce(t)
		var lines logtest.Buffer
		l := limittest.Limiter(t, storeOn(client, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))), "api", core.PerDay(1000))
		for range 3 {
			limittest.Use(t, l, "k", 1)
			next.Store(&single)
			_, err := l.Allow(t.Context(), "k")
			require.Error(t, err, "premise: the call fails with %v", single)
			limittest.Use(t, l, "k", 1)
		}
		assert.Empty(t, lines.String(), "%v, each time of one call", single)
	}
}

// Some servers show a command's arguments in an error: keys of clients, or a
// password.
func TestArgumentsInRepliesAreNotShown(t *testing.T) {
	client, next := failsOnce(t)
	l := limittest.Limiter(t, storeOn(client), "api", core.PerDay(1000))
	var reply error = replied("ERR unknown command 'evalsha', with args beginning with: 'a1b2' '1' 'ratelimit:api:secret-key' ")
	next.Store(&reply)
	_, err := l.Allow(t.Context(), "secret-key")
	if err == nil || strings.Contains(err.Error(), "secret-key") || !strings.Contains(err.Error(), "ERR unknown command 'evalsha'") {
		t.Errorf("the error tells the command and not its arguments: %v", err)
	}
}

// What was released while Redis was away is sent before the first decision
// after that, whoever tries Redis first. Each outage has a store of its own: a
// try that the store began in one outage, and ends in the next, can let a
// decision pass before what was released in the second.
func TestFirstDecisionAfterAnOutageComesAfterWhatWasReturned(t *testing.T) {
	client, broken := breakable(t)
	ctx := t.Context()
	for range 30 {
		l := limittest.Limiter(t, storeOn(client, redisstore.WithBreaker(2, 2*time.Millisecond)), "api", core.InFlight(1).WithMaxHold(time.Hour))
		broken.Store(false)
		res, err := l.Allow(ctx, "k")
		require.True(t, err == nil && res.Allowed, err)
		broken.Store(true)
		for !errors.Is(err, core.ErrBreakerOpen) {
			_, err = l.Peek(ctx, "k")
		}
		require.ErrorIs(t, res.Release(ctx), core.ErrUnavailable)
		broken.Store(false)
		for deadline := time.Now().Add(time.Minute); err != nil; {
			require.True(t, time.Now().Before(deadline), "Redis is not back: %v", err)
			res, err = l.Allow(ctx, "k")
		}
		if !assert.True(t, res.Allowed, "the slot was released before") {
			return
		}
	}
}
