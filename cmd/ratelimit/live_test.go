package main

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
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
	s.store = redisstore.New(s.redis, redisstore.WithTimeout(time.Minute), core.WithClock(func() time.Time { return storeClock() }), core.WithLogger(slog.New(slog.DiscardHandler)))
	t.Setenv(urlVariable, s.url)
	before := longestSearch
	longestSearch = time.Minute
	t.Cleanup(func() { longestSearch = before })
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

// password is one that no output may have.
const password = "hunter2hunter2"

// command runs a command line, in which 'quoted' arguments may have spaces. A
// busy machine gets more time.
func command(t *testing.T, line string) (out, errs string, code int) {
	t.Helper()
	var args []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	out, errs, code = printed(t, "", patient(args)...)
	for _, text := range []string{out, errs} {
		require.NotContains(t, text, password, "no output has a password: %s", line)
		require.NotRegexp(t, "[\x00-\x08\x0b-\x1f\x7f\u202e]", text, "nothing steers a terminal: %s", line)
	}
	return out, errs, code
}

// expect runs command lines, and looks for what each says.
func expect(t *testing.T, lines []expected) {
	t.Helper()
	for _, e := range lines {
		out, errs, code := command(t, e.line)
		assert.Equal(t, e.code, code, "%s:\n%s%s", e.line, out, errs)
		for _, says := range e.says {
			assert.Contains(t, out+errs, says, e.line)
		}
	}
}

// expected is what a command line says, and its exit code.
type expected struct {
	line string
	code int
	says []string
}

// says is what a command line that does its work says.
func says(line string, says ...string) expected { return expected{line, exitDone, says} }

// finds is what a command line says that finds something.
func finds(line string, says ...string) expected { return expected{line, exitFound, says} }

// misuses is what a mistaken command line says.
func misuses(line string, says ...string) expected { return expected{line, exitMisuse, says} }

// patient returns a command line that gives calls much time.
func patient(args []string) []string {
	switch args[0] {
	case "version", "check", "replay", "completion", "help":
		return args
	case "doctor":
		args = append(args, "--store-timeout", "1h")
	}
	return append(args, "--timeout", "1m")
}
