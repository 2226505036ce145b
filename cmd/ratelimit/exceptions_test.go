package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestOverrideRaisesOneClientsLimitNow(t *testing.T) {
	s := serve(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go s.store.FollowExceptions(ctx, s.api)
	s.use(t, "header:x-api-key:k-1", 5)
	left := func(key string, want int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			res, err := s.api.Peek(t.Context(), key)
			return err == nil && res.Remaining == want
		}, 20*time.Second, 10*time.Millisecond)
	}
	left("header:x-api-key:k-1", 0)
	out := s.runOK(t, "override", "-policies", "p.yaml", "api", "-header", "x-api-key=k-1", "8/day name burst", "-for", "2h", "-by", "ann", "-reason", "launch")
	assert.Contains(t, out, "api header:x-api-key:k-1 has an override for 2 h:\n  burst: 8/day, was 1/day burst 5\n  The next request: allowed: 3 of 8 tokens left of burst.\n  Services that call redisstore's FollowExceptions obey within 2 s")
	left("header:x-api-key:k-1", 3)
	assert.NotContains(t, out, "Did you mean")
	out = s.runOK(t, "get", "-policies", "p.yaml", "api", "header:x-api-key:k-1")
	assert.Contains(t, out, "allowed: 3 of 8 tokens left of burst\n")
	assert.Regexp(t, `burst .*  an override of ann until 20\d\d-\d\d-\d\d .*: "launch"\n`, out)

	out = s.runOK(t, "override", "-policies", "p.yaml", "api", "header:x-api-key:k-1", "40/day name daily", "-by", "bob", "-reason", "")
	assert.Contains(t, out, "has an override until it is removed:\n  daily: 40/day, was 1/6h burst 20\n", "the other limit stays: see below")
	out = s.runOK(t, "exceptions", "api")
	assert.Regexp(t, `^header:x-api-key:k-1 +8/day name burst, 40/day name daily +until it is removed, by bob\n$`, out)
	assert.JSONEq(t, `{"version":1,"exceptions":[{"policy":"api","key":"header:x-api-key:k-1","limits":["8/day name burst","40/day name daily"],"by":"bob"}]}`, s.runOK(t, "exceptions", "api", "-json"))

	out, _, code := s.run(t, "override", "-policies", "p.yaml", "api", "header:x-api-key:k-2", "-remove")
	assert.Equal(t, cli.Found, code)
	assert.Contains(t, out, "has no override in Redis. If Redis has lost one, services end it too, within 2 s.\n  The next request: allowed: never used, or not since it was full.\n  Did you mean header:x-api-key:k-1?\n")
	out = s.runOK(t, "override", "-policies", "p.yaml", "api", "header:x-api-key:k-1", "-remove")
	assert.Contains(t, out, "the override has ended")
	left("header:x-api-key:k-1", 0)
	assert.Contains(t, s.runOK(t, "exceptions", "api"), "api has no exceptions in Redis.")
}

func TestBlockDeniesAClientNow(t *testing.T) {
	s := serve(t)
	s.use(t, "ip:192.0.2.1", 1)
	out := s.runOK(t, "block", "-policies", "p.yaml", "api", "-ip", "192.0.2.7", "-for", "7days")
	assert.Contains(t, out, "api ip:192.0.2.7 is blocked for 7 d.\n")
	assert.Contains(t, out, "Redis has no bucket of this key: it was never used, or not since it was full. Did you mean ip:192.0.2.1?\n", "a typing mistake would block somebody else")
	s.runOK(t, "block", "-policies", "p.yaml", "api", "ip:192.0.2.1")
	require.NoError(t, s.store.ReadExceptions(t.Context(), s.api))
	res, err := s.api.Allow(t.Context(), "ip:192.0.2.1")
	require.NoError(t, err)
	assert.False(t, res.Allowed)
	out, _, code := s.run(t, "get", "-policies", "p.yaml", "api", "ip:192.0.2.1")
	assert.Equal(t, cli.Found, code)
	assert.Contains(t, out, "denied: an operator blocks this key")
	assert.Contains(t, s.runOK(t, "unblock", "-policies", "p.yaml", "api", "ip:192.0.2.1"), "the block has ended")
	require.NoError(t, s.store.ReadExceptions(t.Context(), s.api))
	res, err = s.api.Allow(t.Context(), "ip:192.0.2.1")
	require.NoError(t, err)
	assert.True(t, res.Allowed)

	files(t, map[string]string{"b.yaml": "- {name: api, limits: [5/day], blocked: [eve]}\n"})
	out, _, code = s.run(t, "unblock", "-policies", "b.yaml", "api", "eve")
	assert.Equal(t, cli.Found, code, out)
	assert.Contains(t, out, "api eve has no block in Redis. If Redis has lost one, services end it too, within 2 s.\n  The next request: denied: the policy blocks this key.\n  b.yaml blocks it: remove it there.\n")
	s.runOK(t, "block", "-policies", "b.yaml", "api", "eve", "-by", "ann")
	out, _, code = s.run(t, "override", "-policies", "b.yaml", "api", "eve", "6/day")
	assert.Equal(t, cli.Found, code, "an override does not end a block")
	assert.Contains(t, out, "The next request: denied: an operator blocks this key (ann).\n  ratelimit unblock ends the block.\n")
	_, _, code = s.run(t, "override", "-policies", "b.yaml", "api", "eve", "-remove")
	assert.Equal(t, cli.Found, code)
	out, _, code = s.run(t, "unblock", "-policies", "b.yaml", "api", "eve")
	assert.Equal(t, cli.Found, code, "another block stands")
	assert.Contains(t, out, "The next request: denied: the policy blocks this key.\n  b.yaml blocks it: remove it there.\n")
	out, _, code = s.run(t, "override", "-policies", "b.yaml", "api", "eve", "6/day")
	assert.Equal(t, cli.Found, code, "a block of the policy comes before an operator's override")
	assert.Contains(t, out, "The next request: denied: the policy blocks this key.\n  b.yaml blocks it: remove it there.\n")
}

// untilBlocked calls begin once something is written to it, and end once that
// says that a key is blocked.
type untilBlocked struct {
	bytes.Buffer

	begin, end func()
}

func (w *untilBlocked) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	w.begin()
	if strings.Contains(w.String(), "an operator blocks this key") {
		w.end()
	}
	return n, err
}

func (w *untilBlocked) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func TestGetSeesABlockWhileItWatches(t *testing.T) {
	s := serve(t)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	w := &untilBlocked{end: stop, begin: sync.OnceFunc(func() {
		require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	})}
	host, port, _ := net.SplitHostPort(s.addr)
	code := table.Run(ctx, cli.Streams{Out: w, Err: w, Env: func(string) string { return "" }},
		[]string{"get", "-h", host, "-p", port, "-prefix", s.prefix, "-policies", "p.yaml", "-watch", "api", "eve"})
	assert.Equal(t, cli.Interrupted, code)
	assert.Contains(t, w.String(), "an operator blocks this key")
}

func TestMistakesOfExceptionsAreSaid(t *testing.T) {
	s := serve(t)
	files(t, map[string]string{"p.yaml": livePolicies, "two.yaml": "- {name: api, limits: [5/day name a, 5/h name b, 9 tokens/day name c, 3 at once name d]}\n"})
	for _, test := range []struct {
		line []string
		says string
	}{
		{[]string{"override", "-policies", "p.yaml", "api", "ann"}, "name at least one limit"},
		{[]string{"override", "-policies", "p.yaml", "api", "ann", "5/dya"}, "dya"},
		{[]string{"override", "-policies", "p.yaml", "api", "ann", "5/h name dayly"}, "no limit dayly: did you mean daily?"},
		{[]string{"override", "-policies", "two.yaml", "api", "ann", "5/min"}, "which limit does 5/min replace? Name it, such as '5/min name a' (there are a, b, c, d)"},
		{[]string{"override", "-policies", "two.yaml", "api", "ann", "5/h name c"}, "limit c counts something else: it is 9 tokens/day"},
		{[]string{"override", "-policies", "two.yaml", "api", "ann", "5/h", "6/h name b"}, "two limits replace b"},
		{[]string{"override", "-policies", "p.yaml", "api", "ann", "5/h name daily", "-remove"}, "-remove ends the override"},
		{[]string{"override", "-policies", "p.yaml", "api", "ann", "5/h name daily", "-for", "soon"}, "such as 2h, 90min or 7days"},
		{[]string{"block", "-policies", "p.yaml", "api", "ann", "-for", "0s"}, "such as 2h"},
		{[]string{"block", "-policies", "p.yaml", "api", "ann", "-for", "1h name x"}, "such as 2h"},
		{[]string{"block", "-policies", "p.yaml", "api"}, "name a key"},
		{[]string{"block", "-policies", "p.yaml", "apo", "ann"}, "did you mean api?"},
		{[]string{"block", "api", "ann"}, "-policies"},
		{[]string{"exceptions", "-policies", "p.yaml", "apo"}, "did you mean api?"},
	} {
		out, errs, code := s.run(t, test.line[0], test.line[1:]...)
		assert.Equal(t, cli.Misused, code, "%v: %s%s", test.line, out, errs)
		assert.Contains(t, errs, test.says, "%v", test.line)
	}
	list, err := s.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	assert.Empty(t, list, "mistakes change nothing")
	out := s.runOK(t, "override", "-policies", "two.yaml", "api", "ann", "50/h", "90 tokens/day", "6 at once")
	assert.Contains(t, out, "b: 50/h, was 5/h\n  c: 90 tokens/day, was 9 tokens/day\n  d: 6 at once, was 3 at once\n", "limits are found by what they count and their interval")
}

// A later version's exception is said, and the others are obeyed.
func TestUnreadableExceptionsAreSaid(t *testing.T) {
	s := serve(t)
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "eve"}))
	require.NoError(t, s.client.HSet(t.Context(), s.prefix+"%exceptions:api", "pause:ann", "0 later").Err())
	out, errs, code := s.run(t, "get", "-policies", "p.yaml", "api", "eve")
	assert.Equal(t, cli.Found, code)
	assert.Contains(t, out, "an operator blocks this key")
	assert.Contains(t, errs, "warning: ")
	out, errs, code = s.run(t, "exceptions", "api")
	assert.Contains(t, out, "eve  blocked")
	assert.Contains(t, errs, "can't be read")
	assert.NotEqual(t, cli.OK, code)
}

func TestCopyTakesExceptionsAlong(t *testing.T) {
	s := serve(t)
	files(t, map[string]string{"n.yaml": "- {name: public, limits: [5/day, 9/h]}\n"})
	limits := []core.Limit{core.PerDay(50).WithName("api-24h"), core.PerHour(9).WithName("api-1h")}
	for _, e := range []redisstore.Exception{{Key: "eve", For: time.Hour}, {Key: "ann", Limits: limits}} {
		require.NoError(t, s.store.SetException(t.Context(), "api", e))
	}
	url, other := "redis://"+s.addr, redistest.Prefix()
	to := redisstore.New(s.client, redisstore.WithPrefix(other), redisstore.WithTimeout(5*time.Second))
	require.NoError(t, to.SetException(t.Context(), "public", redisstore.Exception{Key: "eve"}))
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "joe"}))
	_, err := to.Unblock(t.Context(), "public", "joe")
	require.NoError(t, err)
	for _, replace := range []bool{false, true} {
		line := []string{"copy", "-prefix", s.prefix, "-to-prefix", other, "-policies", "n.yaml", "-rename", "api=public", url, url, "-timeout", "5s"}
		if replace {
			line = append(line, "-replace")
		}
		out, errs, code := run(t, "", line...)
		require.Equal(t, cli.OK, code, errs)
		list, err := to.Exceptions(t.Context(), "public")
		require.NoError(t, err)
		require.Len(t, list, map[bool]int{false: 2, true: 3}[replace], "%s: what was removed there stays removed, unless -replace is given", out)
		assert.Equal(t, []string{"public-24h", "public-1h"}, []string{list[0].Limits[0].Name, list[0].Limits[1].Name}, "limits without a name get that of the new policy")
		assert.Equal(t, replace, list[1].For > 0, "what the new server has stays, unless -replace is given")
	}
}

func TestForgetDeletesExceptionsToo(t *testing.T) {
	s := serve(t)
	s.use(t, "header:x-api-key:k-1", 1)
	for _, e := range []redisstore.Exception{{Key: "header:x-api-key:k-1"}, {Key: "header:x-api-key:k-1", Limits: []core.Limit{core.PerHour(5)}}, {Key: "header:x-api-key:k-2"}} {
		require.NoError(t, s.store.SetException(t.Context(), "api", e))
	}
	out := s.runOK(t, "find", "k-1")
	assert.Contains(t, out, "1 key and 2 exceptions found, of 1:\n")
	assert.Regexp(t, `api +header:x-api-key:k-1 +an exception: block\n +api +header:x-api-key:k-1 +an exception: override\n`, out)
	assert.Contains(t, s.runOK(t, "forget", "-dry-run", "k-1"), "1 key and 2 exceptions would be deleted")
	list, err := s.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	assert.Len(t, list, 3, "-dry-run deletes nothing")
	assert.Contains(t, s.runOK(t, "forget", "k-1"), "The removals of exceptions, with their keys, stay in Redis for a day")
	list, err = s.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	assert.Equal(t, []redisstore.Exception{{Key: "header:x-api-key:k-2"}}, list)
	assert.Contains(t, s.runOK(t, "find", "k-1"), "0 keys found")
}
