package main

import (
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// noon is when decisions of tests are made. The clock of decisions stands
// still, so that what commands print does not depend on how fast the machine is.
// Limits of days and hours keep keys in Redis for longer than a test may run.
var noon = time.Date(2026, time.March, 2, 12, 0, 0, 0, time.UTC)

// service is a server with buckets, as services leave them.
type service struct {
	redis redis.UniversalClient
	url   string
	store *redisstore.Store
}

// serve starts a server, and has commands run at noon, in a directory with the
// files.
func serve(t *testing.T, files map[string]string) *service {
	t.Helper()
	at(t, noon)
	server := redistest.Start(t)
	s := &service{redis: server.Client(t), url: "redis://" + server.Addr}
	s.store = redisstore.New(s.redis, redisstore.WithTimeout(time.Minute), core.WithClock(func() time.Time { return storeClock() }))
	t.Setenv(urlVariable, s.url)
	write(t, files)
	return s
}

// at sets the clock of decisions until the test ends.
func at(t *testing.T, now time.Time) {
	before := storeClock
	storeClock = func() time.Time { return now }
	t.Cleanup(func() { storeClock = before })
}

// write writes files into a directory, which becomes the working one.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
}

// use takes n tokens of a key, ten minutes before noon.
func (s *service) use(t *testing.T, policy, key string, n int64, limits ...core.Limit) {
	t.Helper()
	now := storeClock
	storeClock = func() time.Time { return now().Add(-10 * time.Minute) }
	defer func() { storeClock = now }()
	l, err := core.NewLimiter(s.store, core.Policy{Name: policy, Limits: limits, OnFailure: core.FailClosed})
	require.NoError(t, err)
	res, err := l.AllowN(t.Context(), key, n)
	require.NoError(t, err)
	require.True(t, res.Allowed, "the premise: %s of %s has %d tokens", key, policy, n)
}

var daily = core.PerDay(10).WithName("daily")
