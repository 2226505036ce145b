package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// livePolicies have limits that don't refill while a test runs: a token takes
// hours.
const livePolicies = `- name: api
  limits:
    - {name: burst, capacity: 5, refill_rate: 1, refill_interval: 24h}
    - {name: daily, capacity: 20, refill_rate: 1, refill_interval: 6h}
  overrides: {vip: [{name: daily, capacity: 1000, refill_rate: 1, refill_interval: 6h}]}
- name: jobs
  shadow: true
  limits: [{name: slots, capacity: 2, mode: concurrent, max_hold: 10m}, {name: budget, unit: tokens, capacity: 1000, refill_rate: 1, refill_interval: 1h, max_hold: 10m}]
`

// service is a server with the limiters of livePolicies, as a service has them.
type service struct {
	client redis.UniversalClient
	addr   string
	prefix string
	store  *redisstore.Store

	api, jobs *core.Limiter
}

// serve returns a service with a prefix of its own, in a directory with its
// policy file.
func serve(t *testing.T) *service {
	t.Helper()
	s := &service{client: redistest.Client(t), addr: redistest.Addr(t), prefix: redistest.Prefix()}
	s.open(t)
	return s
}

func (s *service) open(t *testing.T, options ...redisstore.Option) {
	t.Helper()
	files(t, map[string]string{"p.yaml": livePolicies})
	policies, err := policyfile.LoadFile("p.yaml")
	require.NoError(t, err)
	s.store = redisstore.New(s.client, append([]redisstore.Option{redisstore.WithPrefix(s.prefix), redisstore.WithTimeout(5 * time.Second)}, options...)...)
	s.api = core.Must(core.NewLimiter(s.store, policies["api"]))
	jobs := policies["jobs"]
	jobs.Shadow = false
	s.jobs = core.Must(core.NewLimiter(s.store, jobs))
}

// use takes tokens of a key, all of which must be there.
func (s *service) use(t *testing.T, key string, n int64) {
	t.Helper()
	res, err := s.api.AllowN(t.Context(), key, n)
	require.NoError(t, err)
	require.True(t, res.Allowed, "the premise: %s has %d tokens", key, n)
}

// run runs a command on the service. flags are those of the connection and the
// prefix; policies are given where the command takes them.
func (s *service) run(t *testing.T, command string, args ...string) (out, errs string, code int) {
	t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	line := append([]string{command, "-h", host, "-p", port, "-prefix", s.prefix, "-rate", "0", "-timeout", "5s"}, args...)
	return run(t, "", line...)
}

func (s *service) runOK(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, errs, code := s.run(t, command, args...)
	require.Equal(t, cli.OK, code, "%s %v: %s%s", command, args, out, errs)
	return out
}

func TestGetSaysWhyAClientIsDenied(t *testing.T) {
	s := serve(t)
	get := func(args ...string) (string, int) {
		out, errs, code := s.run(t, "get", append([]string{"-policies", "p.yaml"}, args...)...)
		assert.Empty(t, errs)
		return out, code
	}
	out, code := get("api", "ip:192.0.2.1")
	assert.Contains(t, out, "api ip:192.0.2.1: allowed: never used, or not since it was full\n")
	assert.Equal(t, cli.OK, code)

	s.use(t, "ip:192.0.2.1", 3)
	out, code = get("api", "-ip", "192.0.2.1")
	assert.Contains(t, out, "api ip:192.0.2.1: allowed: 2 of 5 tokens left of burst\n")
	assert.Regexp(t, `burst +2 +5 +allowed now +in 3 d`, out)
	assert.Regexp(t, `daily +17 +20 +allowed now +in 18 h`, out)
	assert.Contains(t, out, "Redis forgets this key in 3 d")
	assert.Equal(t, cli.OK, code)

	out, code = get("api", "ip:192.0.2.1", "-cost", "3")
	assert.Contains(t, out, "denied: burst has 2 tokens left, 3 tokens in ")
	assert.Equal(t, cli.Found, code, "a denied request is what get looks for")
	out, _ = get("api", "ip:192.0.2.1", "-cost", "6")
	assert.Contains(t, out, "denied: 6 is more than burst can ever have: its capacity is 5")

	s.use(t, "ip:192.0.2.1", 2)
	out, code = get("api", "ip:192.0.2.1")
	assert.Regexp(t, `denied: burst is used up, next token in 1 d`, out)
	assert.Equal(t, cli.Found, code)
	require.NoError(t, s.api.Debit(t.Context(), "ip:192.0.2.1", 20))
	out, _ = get("api", "ip:192.0.2.1")
	assert.Regexp(t, `denied: burst owes 20 tokens, next token in 21 d`, out)
	assert.Regexp(t, `burst +-20 +5 +allowed in`, out)

	// Full differs from never used: the state is still there.
	s.use(t, "full", 2)
	require.NoError(t, s.api.Refund(t.Context(), "full", 2))
	out, _ = get("api", "full")
	assert.Contains(t, out, "api full: allowed: full\n")

	var read struct {
		Allowed, Unused, Shadow bool
		Key                     string
		Nearest                 []string
		Limits                  []struct {
			Name             string
			Left, Debt, Held int64
			InUse            int64   `json:"in_use"`
			Retry            float64 `json:"retry_after_seconds"`
		}
	}
	out, _ = get("-json", "api", "ip:192.0.2.1")
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	assert.False(t, read.Allowed)
	assert.Equal(t, int64(20), read.Limits[0].Debt)
	assert.InDelta(t, 21*24*3600, read.Limits[0].Retry, 60, "one for the debt of 20, a day each")
	before, err := s.client.Get(t.Context(), s.prefix+"api:ip:192.0.2.1").Result()
	require.NoError(t, err)
	_, _ = get("api", "ip:192.0.2.1")
	after, err := s.client.Get(t.Context(), s.prefix+"api:ip:192.0.2.1").Result()
	require.NoError(t, err)
	assert.Equal(t, before, after, "get takes nothing")
}

func TestGetTellsWhatIsInUseAndHeld(t *testing.T) {
	s := serve(t)
	res, err := s.jobs.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	out, _, code := s.run(t, "get", "-policies", "p.yaml", "jobs", "ann")
	assert.Equal(t, cli.OK, code)
	assert.Regexp(t, `slots +1 +2 +allowed now +in (10 min|9 min \d+ s) +1 slot in use`, out)
	assert.Regexp(t, `budget +700 +1,000 .* 300 held by estimates, counts tokens`, out)
	assert.Contains(t, out, "shadow mode: it denies nobody")
	_, err = s.jobs.Allow(t.Context(), "ann")
	require.NoError(t, err)
	out, _, code = s.run(t, "get", "-policies", "p.yaml", "jobs", "ann")
	assert.Equal(t, cli.Found, code)
	assert.Regexp(t, `denied: all 2 slots of slots are in use; the next is free in (10 min|9 min \d+ s) at the latest`, out)

	reservation, err := s.api.Reserve(t.Context(), "bob", 2)
	require.NoError(t, err)
	require.True(t, reservation.OK())
	_, _ = s.api.Reserve(t.Context(), "bob", 3)
	_, err = s.api.Reserve(t.Context(), "bob", 1)
	require.NoError(t, err)
	out, _, _ = s.run(t, "get", "-policies", "p.yaml", "api", "bob")
	assert.Contains(t, out, "1 reserved", "the third is due tomorrow")
}

func TestGetTakesKeysInEveryForm(t *testing.T) {
	s := serve(t)
	long := "user:" + strings.Repeat("x", 200)
	joined := core.JoinKey("ip:192.0.2.1", "path:/x")
	for _, key := range []string{long, joined, "header:x-api-key:k-1"} {
		s.use(t, key, 1)
	}
	for want, args := range map[string][]string{
		"raw and long":        {long},
		"hashed":              {store.Key(long)},
		"joined by flags":     {"-join", "-ip", "192.0.2.1", "-path", "/x"},
		"a header":            {"-header", "X-Api-Key=k-1"},
		"as the log has them": {show.Hash([]byte(secret), joined)},
	} {
		out, errs, _ := s.run(t, "get", append([]string{"-policies", "p.yaml", "api"}, args...)...)
		assert.Contains(t, out, "allowed: 4 of 5 tokens left of burst", "%s: %s", want, errs)
	}
	for key, nearest := range map[string]string{"192.0.2.1": joined, "k-1": "header:x-api-key:k-1", "header:x-api-key:k-2": "header:x-api-key:k-1"} {
		out, _, _ := s.run(t, "get", "-policies", "p.yaml", "api", key)
		assert.Contains(t, out, "Did you mean "+nearest+"?", key)
	}
	out, _, _ := s.run(t, "get", "-policies", "p.yaml", "-keys", "hash", "api", "header:x-api-key:k-1")
	assert.NotContains(t, out, "k-1")
	for line, says := range map[string]string{
		"api": "name a key", "ap x": "did you mean api?", "api x -ip 192.0.2.1": "there are 2 keys", "api -ip nobody": "must be an IP address", "api x -cost y": "must be a number", "api x -cost tokns=5": "no limit counts this unit",
	} {
		_, errs, code := s.run(t, "get", append([]string{"-policies", "p.yaml"}, strings.Fields(line)...)...)
		assert.Equal(t, cli.Misused, code, line)
		assert.Contains(t, errs, says, line)
	}
}

// watcher cancels its context after so many repaints.
type watcher struct {
	bytes.Buffer

	repaints int
	stop     func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Count(w.String(), "\x1b[2J") >= w.repaints {
		w.stop()
	}
	return n, err
}

func (w *watcher) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func TestGetWatches(t *testing.T) {
	s := serve(t)
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{repaints: 2, stop: stop}
	host, port, _ := net.SplitHostPort(s.addr)
	code := table.Run(ctx, cli.Streams{Out: w, Err: w, Env: func(string) string { return "" }},
		[]string{"get", "-h", host, "-p", port, "-prefix", s.prefix, "-policies", "p.yaml", "-watch", "api", "x"})
	assert.Equal(t, cli.Interrupted, code)
	assert.Contains(t, w.String(), "never used")
}

func TestListHasTheDeepestDebtsFirst(t *testing.T) {
	s := serve(t)
	for i := range 30 {
		s.use(t, fmt.Sprintf("user:%02d", i), int64(i%5)+1)
	}
	require.NoError(t, s.api.Debit(t.Context(), "user:07", 10))
	require.NoError(t, s.api.Debit(t.Context(), "user:08", 30))
	s.client.Set(t.Context(), s.prefix+"api:broken", "not a bucket", time.Minute)
	_, err := s.jobs.Allow(t.Context(), "of another policy")
	require.NoError(t, err)

	out := s.runOK(t, "list", "-policies", "p.yaml", "-most", "3", "api")
	lines := strings.Split(out, "\n")
	assert.Equal(t, "api: 31 keys, 8 denied now, 1 unreadable", lines[0], "of every five clients one has used all")
	assert.Contains(t, lines[1], "user:08  denied: burst owes")
	assert.Contains(t, lines[2], "user:07  denied: burst owes")
	assert.Regexp(t, `user:\d[49]  denied: burst is used up`, lines[3])
	assert.Contains(t, lines[4], "-page 2")
	out = s.runOK(t, "list", "-policies", "p.yaml", "-most", "3", "-page", "2", "-json", "api")
	var read struct {
		Keys, Denied, Unreadable int
		Buckets                  []struct{ Key string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	require.Len(t, read.Buckets, 3)
	assert.Regexp(t, `user:\d[49]`, read.Buckets[0].Key)
	out = s.runOK(t, "list", "-policies", "p.yaml", "-denied", "-most", "100", "api")
	assert.Equal(t, 8, strings.Count(out, "denied: "))
	assert.NotContains(t, out, "-page", "it is the last page")
	out = s.runOK(t, "list", "-policies", "p.yaml", "-keys", "hash", "api")
	assert.NotContains(t, out, "user:")
	empty, _, _ := s.run(t, "list", "-policies", "p.yaml", "jobs", "-prefix", "other:")
	const check = "  If there should be some, check -prefix (it is other:) and the number of the database (-n).\n"
	assert.Equal(t, "jobs: 0 keys, 0 denied now\n"+check, empty)
	empty, _, _ = s.run(t, "forget", "user:07", "-prefix", "other:")
	assert.Equal(t, "0 keys deleted, of 0\n"+check, empty, "nobody believes that a customer is forgotten")
}

// No command asks for all keys at once.
func TestListingsUseScan(t *testing.T) {
	server := redistest.Start(t)
	s := &service{client: server.Client(t), addr: server.Addr, prefix: "ratelimit:"}
	s.open(t)
	for i := range 500 {
		s.use(t, fmt.Sprint("user:", i), 1)
	}
	began := time.Now()
	out, errs, code := s.run(t, "list", "-policies", "p.yaml", "-rate", "1000", "api")
	require.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, "api: 500 keys")
	assert.GreaterOrEqual(t, time.Since(began), 400*time.Millisecond, "1,000 keys a second are 500 in half a second")
	stats, err := s.client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	assert.Regexp(t, `cmdstat_scan:calls=([4-9]|\d\d),`, stats, "no call looks at more than 1,000/20 keys")
	assert.Regexp(t, `cmdstat_evalsha:calls=\d\d`, stats, "nor at all the buckets")
	assert.NotContains(t, stats, "cmdstat_keys:")
}

// Commands that need buckets and exceptions look at all keys once.
func TestAllKeysAreScannedOnce(t *testing.T) {
	s, to := own(t), redistest.Start(t)
	for i := range 500 { // fewer than one SCAN looks at
		s.use(t, fmt.Sprint("user:", i), 1)
	}
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "user:1"}))
	from := "redis://" + s.addr
	for _, args := range [][]string{
		{"find", "user:1"},
		{"forget", "-dry-run", "user:1"},
		{"copy", from, "redis://" + to.Addr},
		{"copy", "-policy", "api", "-replace", from, "redis://" + to.Addr},
		{"copy", "-policies", "p.yaml", "-rename", "api=public", from, "redis://" + to.Addr},
	} {
		require.NoError(t, s.client.(*redis.Client).ConfigResetStat(t.Context()).Err())
		assert.Contains(t, s.runOK(t, args[0], append(args[1:], "-rate", "0")...), "1 exception", args)
		stats, err := s.client.Info(t.Context(), "commandstats").Result()
		require.NoError(t, err)
		assert.Contains(t, stats, "cmdstat_scan:calls=1,", "%v", args)
	}
}

func TestFindAndForget(t *testing.T) {
	s := serve(t)
	secretKey := "k-123-" + strings.Repeat("y", 150)
	mine := []string{
		"header:x-api-key:k-123", core.JoinKey("header:x-api-key:k-123", "path:/x"), core.JoinKey(core.JoinKey("a", "k-123"), "b"), core.JoinKey("header", "x-api-key", secretKey),
		strings.Repeat("z", 300),
	}
	others := []string{"header:x-api-key:k-1234", "k-12", "path:/k-123", strings.Repeat("w", 300)}
	for _, key := range append(mine, others...) {
		s.use(t, key, 1)
	}
	_, err := s.jobs.Allow(t.Context(), "k-123")
	require.NoError(t, err)

	out := s.runOK(t, "find", "k-123", secretKey, strings.Repeat("z", 300))
	assert.Contains(t, out, "6 keys found, of 10:\n", out)
	assert.Regexp(t, `api +header:x-api-key:k-123\b`, out)
	assert.Regexp(t, `jobs +k-123\n`, out)
	assert.Contains(t, out, "Of the others, 1 is or has the hash of a key above 128 bytes")
	out = s.runOK(t, "find", "-header", "X-Api-Key=k-123")
	assert.Contains(t, out, "2 keys found", "alone and joined: %s", out)
	out = s.runOK(t, "find", "-policies", "p.yaml", "-json", "k-123")
	assert.Contains(t, out, `"says": "allowed: 4 of 5 tokens left of burst"`)
	out = s.runOK(t, "find", "-keys", "hash", "k-123")
	assert.NotContains(t, out, "k-123")

	out = s.runOK(t, "forget", "-dry-run", "k-123")
	assert.Contains(t, out, "4 keys would be deleted (-dry-run)")
	assert.Contains(t, s.runOK(t, "find", "k-123"), "4 keys found", "a dry run deletes nothing")
	assert.Contains(t, out, "may be of more than one customer: one name stands for a whole key of your own and a and header x-api-key. forget asks for -yes.")
	_, errs, code := s.run(t, "forget", "k-123")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "forget would delete 4 keys that may be of more than one customer: one name stands for")
	assert.Contains(t, s.runOK(t, "find", "k-123"), "4 keys found", "nothing is deleted without -yes")
	out = s.runOK(t, "forget", "-yes", "k-123")
	assert.Contains(t, out, "4 keys deleted, of 10")
	assert.Contains(t, out, "up to 1 s")
	assert.Contains(t, s.runOK(t, "find", "k-123"), "0 keys found, of 6", "other customers keep theirs")
	_, errs, code = s.run(t, "forget")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "needs a customer")
}

// Customers are named as words of the key scheme, and in other ways that a key
// can be read wrongly. Each is found and forgotten with all of its keys and
// blocks, without -yes, and the others keep theirs.
func TestForgettingOneCustomerKeepsTheOthers(t *testing.T) {
	s := serve(t)
	names := []string{
		"ip", "header", "cookie", "query", "value", "param", "path", "route", "method", "global", "service", "tool", "session", "x-api-key", "api", "jobs", "user", "bob", "bo", "bob2",
		"a:b", "a", "b", "50%", "%3A", "a%3Ab", "{x}", "}", "é", "a\tb", "\xff", "-x", `"bob"`, "o'brien", "GET", "/report", "192.0.2.1", "ip:192.0.2.1", "header:x-other:bob", strings.Repeat("long", 50),
	}
	of := func(name string) (api, jobs string) {
		key := core.Must(keyof.Header("X-Api-Key", name))
		return key, keyof.Join(core.Must(keyof.Method("GET")), key, core.Must(keyof.Path("/report")))
	}
	for _, name := range names {
		key, joined := of(name)
		s.use(t, key, 1)
		_, err := s.jobs.Allow(t.Context(), joined)
		require.NoError(t, err)
		require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: store.Key(key)}))
	}
	left := func() map[string]bool {
		keys := make(map[string]bool)
		for b, err := range s.store.Buckets(t.Context(), "", 0) {
			require.NoError(t, err)
			keys[b.Policy+" "+b.Key] = true
		}
		list, err := s.store.Exceptions(t.Context(), "api")
		require.NoError(t, err)
		for _, x := range list {
			keys["block "+x.Key] = true
		}
		return keys
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		want := left()
		require.Len(t, want, 3*(len(want)/3), "the premise: each customer has all or nothing")
		key, joined := of(name)
		found := s.runOK(t, "find", oncall.ShownKey(name))
		assert.Contains(t, found, "2 keys and 1 exception found", "%q", name)
		for _, shown := range []string{oncall.ShownKey(store.Key(key)), oncall.ShownKey(store.Key(joined))} {
			assert.Contains(t, found, "  "+shown, "find lists those of %q", name)
		}
		s.runOK(t, "forget", oncall.ShownKey(name))
		for _, one := range []string{"api " + store.Key(key), "jobs " + store.Key(joined), "block " + store.Key(key)} {
			delete(want, one)
		}
		assert.Equal(t, want, left(), "forget %q deletes its keys alone", name)
	}
	assert.Empty(t, left())
}

func TestResetCreditAndDebit(t *testing.T) {
	s := serve(t)
	p := []string{"-policies", "p.yaml"}
	left := func(key string) (burst, daily int64) {
		res, err := s.api.Peek(t.Context(), key)
		require.NoError(t, err)
		return res.Limits()[0].Remaining - res.Limits()[0].Debt, res.Limits()[1].Remaining - res.Limits()[1].Debt
	}
	s.use(t, "ann", 5)
	out, _, code := s.run(t, "credit", append(p, "api", "ann", "daily", "3")...)
	assert.Contains(t, out, "api ann: credited 3 tokens: daily has 18 of 20 tokens left, and had 15.\n  The next request: denied: burst is used up, next token in 1 d.\n")
	assert.Equal(t, cli.Found, code, "the client still gets 429")
	assert.Contains(t, out, "up to 1 s")
	burst, daily := left("ann")
	assert.Equal(t, []int64{0, 18}, []int64{burst, daily}, "the other limit keeps its tokens")
	out, _, _ = s.run(t, "credit", append(p, "api", "ann", "daily", "300")...)
	assert.Contains(t, out, "It is full")
	out = s.runOK(t, "debit", append(p, "api", "ann", "daily", "25")...)
	assert.Contains(t, out, "debited 25 tokens: daily has -5 of 20 tokens left, and had 20.")
	burst, daily = left("ann")
	assert.Equal(t, []int64{0, -5}, []int64{burst, daily})
	out = s.runOK(t, "reset", append(p, "api", "ann")...)
	assert.Regexp(t, `api ann is reset: every limit is full\. Before: denied: daily owes 5 tokens, next token in`, out)
	burst, daily = left("ann")
	assert.Equal(t, []int64{5, 20}, []int64{burst, daily})

	s.use(t, "vip", 5)
	out, _, _ = s.run(t, "credit", append(p, "api", "vip", "daily", "4")...)
	assert.Contains(t, out, "daily has 999 of 1,000 tokens left", "an override's own limit")

	_, err := s.jobs.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	out = s.runOK(t, "debit", append(p, "jobs", "ann", "budget", "100")...)
	assert.Contains(t, out, "budget has 600 of 1,000 tokens left", "a unit of its own")
	for line, says := range map[string]string{
		"jobs ann slots 1": "slots come back when these end, after 10 min at the latest", "api ann dayly 1": "did you mean daily?", "api ann daily 0": "above 0",
		"api ann daily x": "above 0", "api ann daily 1 -all": "-all is all keys",
	} {
		_, errs, code := s.run(t, "credit", append(p, strings.Fields(line)...)...)
		assert.Equal(t, cli.Misused, code, line)
		assert.Contains(t, errs, says, line)
	}
	s.client.Set(t.Context(), s.prefix+"api:broken", "not a bucket", time.Minute)
	_, errs, code := s.run(t, "get", append(p, "api", "broken")...)
	assert.Equal(t, cli.Unavailable, code)
	assert.Contains(t, errs, "RL613")
	assert.Contains(t, s.runOK(t, "reset", append(p, "api", "broken")...), "Before: it could not be read")
}

func TestCreditAll(t *testing.T) {
	s := serve(t)
	long := strings.Repeat("long", 50)
	for _, key := range []string{"ann", "bob", long} {
		s.use(t, key, 5)
	}
	s.use(t, "vip", 5)
	args := []string{"-policies", "p.yaml", "api", "-all", "burst", "2"}
	_, errs, code := s.run(t, "credit", args...)
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "gives 2 tokens to limit burst of 4 keys: add -yes to do it")
	out := s.runOK(t, "credit", append(args, "-yes")...)
	assert.Contains(t, out, "credited 2 tokens to limit burst of 4 keys.", "an override leaves the limits that it does not name")
	assert.NotContains(t, out, "Left as they are")
	for _, key := range []string{"ann", "bob", long} {
		res, err := s.api.Peek(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, int64(2), res.Limits()[0].Remaining)
		assert.Equal(t, int64(15), res.Limits()[1].Remaining)
	}
	_, errs, code = s.run(t, "credit", "-policies", "p.yaml", "api", "-all", "bust", "2", "-yes")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "did you mean burst?")
}

// Keys are shown whole, for the next command, and no key or policy can steer a
// terminal.
func TestKeysInOutputAreWholeAndHarmless(t *testing.T) {
	s := serve(t)
	long := "user:" + strings.Repeat("x", 120)
	for _, key := range []string{long, "evil\x1b[2J"} {
		s.use(t, key, 5)
	}
	s.client.Set(t.Context(), s.prefix+"pol\x1bicy:k", "x", time.Minute)
	out := s.runOK(t, "list", "-policies", "p.yaml", "api") + s.runOK(t, "find", "k", long)
	doctor, _, _ := s.run(t, "doctor", "-policies", "p.yaml")
	assert.Contains(t, out, long)
	assert.Contains(t, out, `evil\x1b[2J`)
	assert.NotContains(t, out+doctor, "\x1b")
}

func TestGetSaysThatAKeyIsBlocked(t *testing.T) {
	s := serve(t)
	require.NoError(t, os.WriteFile("blocking.yaml", []byte("- name: api\n  limits: [9/day]\n  blocked: [\"ip:192.0.2.66\"]\n"), 0o600))
	out, errs, code := s.run(t, "get", "-policies", "blocking.yaml", "api", "-ip", "192.0.2.66")
	assert.Empty(t, errs)
	assert.Contains(t, out, "api ip:192.0.2.66: denied: the policy blocks this key\n")
	assert.Equal(t, cli.Found, code)
	out, _, code = s.run(t, "get", "-policies", "blocking.yaml", "api", "-ip", "192.0.2.67")
	assert.Contains(t, out, "allowed")
	assert.Equal(t, cli.OK, code)
}
