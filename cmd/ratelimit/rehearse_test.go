package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// stage is where the commands of pages run: a directory, the built command on
// the PATH, two servers of Redis, and two processes of a service. Pages call
// these 127.0.0.1:6379, old:6379 and redis:6379, new:6379, app-1:8080 and
// app-2:8080. Some nights have more: the nodes of a Cluster, n1:6379 to
// n6:6379, and secure:6379 with TLS.
type stage struct {
	dir, bin     string
	redis, other redis.UniversalClient
	apps         []*process
	following    func() // ends what follow began
	env          []string
	shown        *strings.Replacer // real addresses become those of pages
}

// wrapper runs the command on the servers of the test. A machine that is busy
// gets more time.
const wrapper = `#!/bin/bash
command=$1; shift
for address in "$OLD=old:6379" "$OLD=redis:6379" "$NEW=new:6379" "$NEW=restored:6379" "$APP1=app-1:8080" "$APP2=app-2:8080" "$SECURE=secure:6379" \
  "$N1=n1:6379" "$N2=n2:6379" "$N3=n3:6379" "$N4=n4:6379" "$N5=n5:6379" "$N6=n6:6379"; do
  set -- "${@//${address#*=}/${address%%=*}}"
done
timeout=1m
case " $* " in *" -c "*) timeout=3s ;; esac # a node hangs
case $command in get|list|find|forget|reset|credit|debit|override|block|unblock|exceptions|history|doctor) set -- -p "${OLD#*:}" -timeout $timeout "$@" ;; esac
case $command in copy|top) set -- -timeout 1m "$@" ;; esac
case $command in doctor) set -- -store-timeout 10m "$@" ;; esac
exec "${0%/*}/real/ratelimit" "$command" "$@"
`

// redisCLI runs redis-cli on a node of the Cluster: -h n5 -p 6379 is its first
// argument.
const redisCLI = `#!/bin/bash
address=$(eval "echo \$${2^^}"); shift 4
exec %s -h "${address%%%%:*}" -p "${address#*:}" "$@"
`

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir(), bin: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(s.bin, "real", "ratelimit"), ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.bin, "ratelimit"), []byte(wrapper), 0o700))
	old, other := redistest.Start(t), redistest.Start(t)
	s.redis, s.other = old.Client(t), other.Client(t)
	var apps []string
	s.following = func() {}
	t.Cleanup(func() { s.following() })
	for _, denials := range []map[string]int{{"header:x-api-key:k-123": 130, "ip:192.0.2.7": 41}, {"header:x-api-key:k-123": 121}} {
		p := replicaOf(t, 10, httptest.NewServer)
		for key, n := range denials {
			p.deny(t, key, n)
		}
		s.apps = append(s.apps, p)
		apps = append(apps, strings.TrimSuffix(strings.TrimPrefix(p.url, "http://"), "/admin/limits"))
	}
	s.env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "TZ=UTC", "PASSWORD="+password, "ADMINLIMIT_USER=ann:"+password,
		"OLD="+old.Addr, "NEW="+other.Addr, "APP1="+apps[0], "APP2="+apps[1])
	s.shown = strings.NewReplacer(old.Addr, "127.0.0.1:6379", other.Addr, "new:6379", apps[0], "app-1:8080", apps[1], "app-2:8080")
	return s
}

// steady is for how long the output stays the same after prepare: durations are
// rounded up to minutes, and begin at full ones.
const steady = 40 * time.Second

// windows are for how long processes counted denials: since the test began.
var windows = regexp.MustCompile(`(replicas?) in \d+ (ms|s|min)( \d+ s)?\n`)

// run runs commands of a page on buckets that prepare has just made, and
// returns what they print: with the addresses of pages, and with windows of 1 h
// 24 min. If the machine is too slow for durations to stay the same, it tries
// again.
func (s *stage) run(t *testing.T, script string, prepare func(*testing.T)) (printed string) {
	t.Helper()
	for range 5 {
		s.clear(t)
		began := time.Now()
		prepare(t)
		printed = s.bash(t, script)
		if time.Since(began) < steady {
			return printed
		}
	}
	t.Fatalf("the premise: the commands end within %v:\n%s", steady, script)
	return ""
}

// bash runs commands.
func (s *stage) bash(t *testing.T, script string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "bash", "-c", script)
	c.Dir, c.Env = s.dir, s.env
	out, err := c.CombinedOutput() // what it prints tells whether it failed
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for _, never := range []string{password, "goroutine "} {
		require.NotContains(t, string(out), never, "no output has a password or a stack trace")
	}
	return windows.ReplaceAllString(s.shown.Replace(string(out)), "$1 in 1 h 24 min\n")
}

// follow has the first app follow the exceptions of a store until the buckets
// are cleared. The second follows none.
func (s *stage) follow(t *testing.T, store *redisstore.Store) {
	t.Helper()
	s.following = s.apps[0].follow(store)
}

// clear makes both servers as new.
func (s *stage) clear(t *testing.T) {
	t.Helper()
	s.following()
	s.following = func() {}
	for _, c := range []redis.UniversalClient{s.redis, s.other} {
		require.NoError(t, c.FlushAll(t.Context()).Err())
		require.NoError(t, c.ScriptFlush(t.Context()).Err())
	}
}

// use takes n tokens of a key, ten minutes ago by the server's clock.
func (s *stage) use(t *testing.T, policy, key string, n int64, limits ...core.Limit) {
	t.Helper()
	now, err := s.redis.Time(t.Context()).Result()
	require.NoError(t, err)
	s.useAt(t, now.Add(-age), policy, key, n, limits...)
	// The script spreads TTLs at random.
	require.NoError(t, s.redis.PExpire(t.Context(), "ratelimit:"+policy+":"+key, 24*time.Hour).Err())
}

// age is the age of what use takes.
const age = 10 * time.Minute

// useAt takes n tokens of a key at an instant.
func (s *stage) useAt(t *testing.T, at time.Time, policy, key string, n int64, limits ...core.Limit) {
	t.Helper()
	store := redisstore.New(s.redis, redisstore.WithTimeout(time.Minute), core.WithClock(func() time.Time { return at }))
	l, err := core.NewLimiter(store, core.Policy{Name: policy, Limits: limits, OnFailure: core.FailClosed})
	require.NoError(t, err)
	res, err := l.AllowN(t.Context(), key, n)
	require.NoError(t, err)
	require.True(t, res.Allowed, "the premise: %s of %s has %d tokens", key, policy, n)
}

// daily is the limit that the clients of pages use up.
var daily = core.PerDay(10).WithName("daily")

// shardHangs starts a Cluster of which a master hangs: n2, which has neither
// the client of the page nor exceptions.
func (s *stage) shardHangs(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		redistest.Unavailable(t, err)
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.bin, "redis-cli"), fmt.Appendf(nil, redisCLI, path), 0o700))
	c := startCluster(t, 3, 3)
	hung := slices.IndexFunc(c.masters, func(m *redistest.Server) bool {
		return m != c.masterOf(t, "ratelimit:api:ip:192.0.2.7") && m != c.masterOf(t, exceptionsKey)
	})
	for _, list := range [][]*redistest.Server{c.masters, c.replicas} {
		list[1], list[hung] = list[hung], list[1]
	}
	names := []string{}
	for i, node := range slices.Concat(c.masters, c.replicas) {
		s.env = append(s.env, fmt.Sprintf("N%d=%s", i+1, node.Addr))
		names = append(names, node.Addr, fmt.Sprintf("n%d:6379", i+1))
	}
	s.shown = strings.NewReplacer(names...)
	standalone := s.redis
	s.redis = c.nodes
	s.clients(t)
	s.redis = standalone
	failing["hung"](t, c.masters[1])
}

// secure starts a server with TLS and a password.
func (s *stage) secure(t *testing.T) {
	t.Helper()
	cert, key, _ := redistest.Certificate(t)
	require.NoError(t, os.Rename(cert, filepath.Join(s.dir, "ca.pem")))
	port, err := redistest.FreePort()
	require.NoError(t, err)
	ca := filepath.Join(s.dir, "ca.pem")
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", ca, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no", "--requirepass", password)
	s.env = append(s.env, "SECURE=localhost:"+port)
	s.clients(t)
}

// customers makes the buckets of docs/plans.md: bob has the plan pro, and ann
// none.
func (s *stage) customers(t *testing.T) {
	t.Helper()
	s.use(t, "api", "value:user:bob", 50, core.PerMinute(60).WithName("minute"), core.PerDay(1000).WithName("day"))
	s.use(t, "api", "value:user:ann", 10, core.PerMinute(10).WithName("minute"), core.PerDay(100).WithName("day"))
}

// clients makes the buckets of the pages: one client is denied, another is not,
// and one was last limited by a wrong definition.
func (s *stage) clients(t *testing.T) {
	t.Helper()
	s.use(t, "api", "header:x-api-key:k-123", 10, daily)
	s.use(t, "api", "ip:192.0.2.7", 6, daily)
	s.use(t, "exports", core.JoinKey("header:x-api-key:k-123", "path:/report"), 1, daily)
	s.useAt(t, time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC), "api", "ip:192.0.2.8", 1, core.PerDay(5).WithName("daily"))
}
