package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// keysOf returns the keys with a prefix. The prefix must not hold characters
// that are special in a pattern.
func keysOf(t testing.TB, client *redis.Client, prefix string) []string {
	t.Helper()
	var keys []string
	for it := client.Scan(context.Background(), 0, prefix+"*", 1000).Iterator(); ; {
		if !it.Next(context.Background()) {
			if it.Err() != nil {
				t.Fatal(it.Err())
			}
			slices.Sort(keys)
			return slices.Compact(keys)
		}
		keys = append(keys, it.Val())
	}
}

func TestAllLimitsShareOneRedisKey(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	store := redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout)
	var limits []core.Limit
	for n := range 10 {
		limits = append(limits, core.Limit{Capacity: 100, RefillRate: 1, RefillInterval: time.Duration(n+1) * time.Hour})
		l := limittest.Limiter(t, store, "policy-"+strconv.Itoa(n), limits...)
		limittest.Use(t, l, "user", 1)
		limittest.Use(t, l, "user", 1)
	}
	if keys := keysOf(t, client, prefix); len(keys) != 10 {
		t.Errorf("10 policies of 1 to 10 limits and one user have %d keys, want 10: %q", len(keys), keys)
	}
	for _, key := range keysOf(t, client, prefix) {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 0 {
			t.Errorf("key %q has no expiry: %v", key, ttl)
		}
	}
}

// In a Redis Cluster the text between a key's first '{' and the next '}'
// selects its slot.
func TestKeysCannotChooseTheirClusterSlot(t *testing.T) {
	client, base := redistest.Client(t), redistest.Prefix()
	for _, c := range []struct{ prefix, policy, key, want string }{
		{base, "api", "user", base + "api:user"},
		{base, "api", "{user}", base + "api:%7Buser%7D"},
		{base, "{api}", "}{", base + "%7Bapi%7D:%7D%7B"},
		{base, "a:b", "c:d", base + "a%3Ab:c:d"},
		{base, "api", "100%", base + "api:100%"},
		{base, "api", "%7Buser%7D", base + "api:%257Buser%257D"},
		{base, "api", "a\x00\n\xff", base + "api:a\x00\n\xff"},
		{"{" + strings.TrimSuffix(base, ":") + "}:", "api", "{user}", "{" + strings.TrimSuffix(base, ":") + "}:api:%7Buser%7D"},
		{"{" + base + "}:", "api", "{user}", "{" + base + "}:%:api:%7Buser%7D"},
	} {
		store := redisstore.New(client, redisstore.WithPrefix(c.prefix), longTimeout)
		limittest.Use(t, limittest.Limiter(t, store, c.policy, core.PerDay(10)), c.key, 1)
		if n := client.Exists(t.Context(), c.want).Val(); n != 1 {
			t.Errorf("policy %q, key %q: want the Redis key %q, have %q", c.policy, c.key, c.want, keysOf(t, client, c.prefix))
		}
		client.Del(t.Context(), c.want)
	}
}

func TestDefaultPrefix(t *testing.T) {
	client := redistest.Client(t)
	policy := "default-prefix-" + strings.ReplaceAll(redistest.Prefix(), ":", "-")
	l := limittest.Limiter(t, redisstore.New(client, longTimeout), policy, core.PerDay(10))
	limittest.Use(t, l, "user", 1)
	if n := client.Exists(t.Context(), "ratelimit:"+policy+":user").Val(); n != 1 {
		t.Error(`without WithPrefix keys begin with "ratelimit:"`)
	}
	if err := l.Reset(t.Context(), "user"); err != nil || client.Exists(t.Context(), "ratelimit:"+policy+":user").Val() != 0 {
		t.Errorf("Reset deletes the key: %v", err)
	}
}

func TestLostScriptCacheFailsNoRequest(t *testing.T) {
	client := redistest.Start(t).Client(t) // its own: tests of other packages count the scripts that they send
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout), "api", core.PerDay(20))
	for n := range 20 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		res, err := l.Allow(t.Context(), "user")
		if err != nil || !res.Allowed || res.Source != core.FromStore || res.Remaining != int64(19-n) {
			t.Fatalf("after SCRIPT FLUSH: allowed %v by %v with %d left, %v; want allowed by the store with %d left",
				res.Allowed, res.Source, res.Remaining, err, 19-n)
		}
	}
}

// written reports whether do writes key. It uses a transaction, which Redis
// aborts if a watched key was written.
func written(t *testing.T, client *redis.Client, key string, do func()) bool {
	t.Helper()
	err := client.Watch(t.Context(), func(tx *redis.Tx) error {
		do()
		_, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Ping(t.Context()).Err() })
		return err
	}, key)
	if err != nil && !errors.Is(err, redis.TxFailedErr) {
		t.Fatal(err)
	}
	return err != nil
}

func TestRequestThatTakesNothingWritesNothing(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "api", core.PerDay(10), core.PerHour(10))
	key := prefix + "api:user"
	ask := func(cost int64) func() {
		return func() {
			if _, err := l.AllowN(t.Context(), "user", cost); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		rule string
		do   func()
		want bool
	}{
		{"a peek at an unused key", ask(0), false},
		{"a denial of an unused key", ask(11), false},
		{"a grant", ask(8), true},
		{"a look", ask(0), false},
		{"a denial", ask(5), false},
		{"a cost above the capacity", ask(11), false},
		{"another grant", ask(1), true},
		{"a refund", func() { _ = l.Refund(t.Context(), "user", 1) }, true},
		{"a reservation above the capacity", func() { _, _ = l.Reserve(t.Context(), "user", 11) }, false},
	} {
		before, _ := client.Get(t.Context(), key).Result()
		ttl := client.PExpireTime(t.Context(), key)
		if got := written(t, client, key, c.do); got != c.want {
			t.Errorf("%s: writes to the key: %v, want %v", c.rule, got, c.want)
		}
		after, _ := client.Get(t.Context(), key).Result()
		if !c.want && (before != after || ttl.Err() == nil && client.PExpireTime(t.Context(), key).Val() != ttl.Val()) {
			t.Errorf("%s changes the key's value or expiry: %x to %x", c.rule, before, after)
		}
	}
}

// wire is a client that records the script calls of a store.
type wire struct {
	redis.UniversalClient
	sent []string
}

func (w *wire) Process(ctx context.Context, cmd redis.Cmder) error {
	if cmd.Name() != "ping" { // the store sends PING to make a connection
		w.sent = append(w.sent, fmt.Sprintf("%q", cmd.Args()))
	}
	return w.UniversalClient.Process(ctx, cmd)
}

func TestServerClockDecides(t *testing.T) {
	client := &wire{UniversalClient: redistest.Client(t)}
	const hours = 1000 * time.Hour
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout), "api",
		core.Limit{Capacity: 10, RefillRate: 10, RefillInterval: hours, Mode: core.Aligned})
	limittest.Use(t, l, "user", 1) // loads the script, if need be
	client.sent = nil

	before := client.Time(t.Context()).Val()
	res, err := l.Allow(t.Context(), "user")
	if err != nil {
		t.Fatal(err)
	}
	after := client.Time(t.Context()).Val()
	limittest.Use(t, l, "user", 1)

	if len(client.sent) != 2 || client.sent[0] != client.sent[1] {
		t.Errorf("equal requests must send equal bytes at any time, so that only the server's clock counts: %q", client.sent)
	}
	next := func(now time.Time) time.Duration {
		return hours - time.Duration(now.UnixMicro()%hours.Microseconds())*time.Microsecond
	}
	if res.ResetAfter > next(before) || res.ResetAfter < next(after) {
		t.Errorf("on the server's clock the next boundary is from %v to %v away, but ResetAfter is %v", next(after), next(before), res.ResetAfter)
	}
}

// countingHook counts commands, as hooks for tracing and metrics do.
type countingHook struct {
	redistest.Hook

	scripts atomic.Int64
}

func (h *countingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") {
			h.scripts.Add(1)
		}
		return next(ctx, cmd)
	}
}

func TestHooksOfTheClientSeeDecisions(t *testing.T) {
	client, hook := redistest.Client(t), &countingHook{}
	client.AddHook(hook)
	limittest.Use(t, limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), longTimeout), "api", core.PerDay(10)), "user", 1)
	if hook.scripts.Load() == 0 {
		t.Error("hooks of the caller's client, as for tracing, must see decisions")
	}
}

func TestEndedContextIsNoOutage(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	connected := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			connected <- struct{}{}
		}
	}()
	client := redis.NewClient(&redis.Options{Addr: silent.Addr().String()})
	defer client.Close()
	for _, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
		l, err := core.NewLimiter(redisstore.New(client, redisstore.WithTimeout(time.Minute)), core.Policy{
			Name: "api", Limits: []core.Limit{core.PerDay(10)}, OnFailure: mode})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-connected; cancel() }()
		res, err := l.Allow(ctx, "user")
		if !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) || res.Allowed || res.Source != core.FromStore {
			t.Errorf("%v: a request canceled under way: allowed %v by %v, %v; want context.Canceled, not an outage", mode, res.Allowed, res.Source, err)
		}
		if err := l.Reset(ctx, "user"); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnavailable) {
			t.Errorf("%v: Reset with a cancelled context = %v, want context.Canceled", mode, err)
		}
	}
}

// A key longer than 128 bytes is stored by its hash, so that clients can't fill
// the server with long keys.
func TestLongKeysAreStoredByTheirHash(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	l := limittest.Limiter(t, redisstore.New(client, redisstore.WithPrefix(prefix), longTimeout), "api", core.PerDay(10))
	limittest.Use(t, l, string(bytes.Repeat([]byte{'{'}, 1<<20)), 1)
	for _, key := range keysOf(t, client, prefix) {
		if len(key) > len(prefix)+len("api:")+3*128 {
			t.Errorf("a key of 1 MB is stored under %d bytes", len(key))
		}
	}
}
