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

// outageLine makes decisions until an outage is logged, and returns its line.
func outageLine(t *testing.T, client *redis.Client) string {
	t.Helper()
	var lines logtest.Buffer
	store := redisstore.New(client, longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
	l := limittest.Limiter(t, store, "api", core.PerDay(1000))
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, err := l.Allow(t.Context(), "k"); err == nil {
			t.Fatal("premise: no decision by Redis")
		}
		for line := range strings.Lines(lines.String()) {
			if strings.Contains(line, "RL712") {
				return line
			}
		}
	}
	t.Fatalf("an outage is logged:\n%s", lines.String())
	return ""
}

// "Redis does not answer" is said only of a Redis that does not. The line shows
// what it said, or why there is no connection, and its address, but no
// password.
func TestOutageLineSaysWhatIsWrong(t *testing.T) {
	server := redistest.Start(t)
	admin, ctx := server.Client(t), t.Context()
	must := func(args ...any) {
		t.Helper()
		if err := admin.Do(ctx, args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	must("acl", "setuser", "limiter", "on", ">secret", "~*", "+@connection")
	as := func(user, password string) *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, ContextTimeoutEnabled: true, Username: user, Password: password})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	for _, c := range []struct {
		name        string
		begin, end  []any
		client      *redis.Client
		says, error string
	}{
		{"a wrong password", nil, nil, as("limiter", "secret-too"), "Redis refuses the password or the user", "WRONGPASS"},
		{"no password", []any{"config", "set", "requirepass", "other"}, []any{"config", "set", "requirepass", ""}, as("", ""),
			"Redis refuses the password or the user", "NOAUTH"},
		{"a right that is missing", nil, nil, as("limiter", "secret"), "Redis refuses this user a command or a key", "NOPERM"},
		{"a full memory", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"}, as("", ""),
			"the memory of Redis is full, so it takes no writes", "OOM"},
		{"a replica", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}, as("", ""),
			"this Redis is a replica and takes no writes", "READONLY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.begin != nil {
				must(c.begin...)
			}
			line := outageLine(t, c.client)
			if c.name == "no password" {
				must("auth", "other")
			}
			if c.end != nil {
				must(c.end...)
			}
			wantInLine(t, line, "ratelimit: "+c.says+";", c.error, "server=redis://"+server.Addr)
			if strings.Contains(line, "does not answer") || strings.Contains(line, "secret") {
				t.Errorf("Redis answers, and passwords are not shown: %s", line)
			}
		})
	}
}

func TestOutageLineShowsWhyThereIsNoConnection(t *testing.T) {
	port, err := redistest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for name, retries := range map[string]int{"go-redis' default": 0, "DialerRetries 1": 1} {
		t.Run(name, func(t *testing.T) {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, ContextTimeoutEnabled: true, DialerRetries: retries})
			defer client.Close()
			wantInLine(t, outageLine(t, client), "ratelimit: Redis does not answer;", "connect: connection refused", "server=redis://127.0.0.1:"+port)
		})
	}
}

func wantInLine(t *testing.T, line string, parts ...string) {
	t.Helper()
	for _, want := range parts {
		if !strings.Contains(line, want) {
			t.Errorf("the line of an outage must have %q: %s", want, line)
		}
	}
}

// onceHook fails the next script with an error.
type onceHook struct {
	countingHook

	next atomic.Pointer[error]
}

func (h *onceHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.next.Load(); err != nil && strings.HasPrefix(cmd.Name(), "eval") && h.next.CompareAndSwap(err, nil) {
			cmd.SetErr(*err)
			return *err
		}
		return next(ctx, cmd)
	}
}

// replied is an error that a server replied.
type replied string

func (e replied) Error() string { return string(e) }
func (replied) RedisError()     {}

// One failed call is no outage, and its end is no return.
func TestOneFailedCallIsNoOutage(t *testing.T) {
	for _, single := range []error{io.EOF, context.DeadlineExceeded, replied("OOM command not allowed when used memory > 'maxmemory'.")} {
		client, hook := redistest.Client(t), &onceHook{}
		client.AddHook(hook)
		var lines logtest.Buffer
		store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		l := limittest.Limiter(t, store, "api", core.PerDay(1000))
		for range 3 {
			if _, err := l.Allow(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			hook.next.Store(&single)
			if _, err := l.Allow(t.Context(), "k"); err == nil {
				t.Fatalf("premise: the call fails with %v", single)
			}
			if _, err := l.Allow(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		}
		if text := lines.String(); text != "" {
			t.Errorf("%v, each time of one call: the log must say nothing, and says\n%s", single, text)
		}
	}
}

// Some servers show a command's arguments in an error: keys of clients, or a
// password.
func TestArgumentsInRepliesAreNotShown(t *testing.T) {
	client, hook := redistest.Client(t), &onceHook{}
	client.AddHook(hook)
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout), "api", core.PerDay(1000))
	var reply error = replied("ERR unknown command 'evalsha', with args beginning with: 'a1b2' '1' 'ratelimit:api:secret-key' ")
	hook.next.Store(&reply)
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
	client, hook := redistest.Client(t), &brokenHook{}
	client.AddHook(hook)
	ctx := t.Context()
	for range 30 {
		s := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout, redisstore.WithBreaker(2, 2*time.Millisecond))
		l := core.Must(core.NewLimiter(s, core.Policy{
			Name: "api", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Hour)}, OnFailure: core.FailClosed,
		}))
		hook.works.Store(true)
		res, err := l.Allow(ctx, "k")
		require.True(t, err == nil && res.Allowed, err)
		hook.works.Store(false)
		for !errors.Is(err, core.ErrBreakerOpen) {
			_, err = l.Peek(ctx, "k")
		}
		require.ErrorIs(t, res.Release(ctx), core.ErrUnavailable)
		hook.works.Store(true)
		for deadline := time.Now().Add(time.Minute); err != nil; {
			require.True(t, time.Now().Before(deadline), "Redis is not back: %v", err)
			res, err = l.Allow(ctx, "k")
		}
		if !assert.True(t, res.Allowed, "the slot was released before") {
			return
		}
	}
}
