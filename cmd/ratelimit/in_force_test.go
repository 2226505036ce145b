package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// steering is a key and a reason that could steer a terminal.
const steering = "evil\x1b[2J\u202e\u2028"

func TestExceptionsOfAllPoliciesAreListed(t *testing.T) {
	s := serve(t)
	assert.Contains(t, s.runOK(t, "exceptions"), "There are no exceptions in Redis.\n")
	for policy, list := range map[string][]redisstore.Exception{
		"api":  {{Key: "ann", Limits: []core.Limit{core.Limit{Times: 10}}, By: "bob", Reason: "launch"}, {Key: steering, Reason: "\u202elaunch"}},
		"jobs": {{Key: "ann", For: 90 * time.Minute}}, "ended": {},
	} {
		for _, e := range list {
			require.NoError(t, s.store.SetException(t.Context(), policy, e))
		}
	}
	_, err := s.store.Unblock(t.Context(), "ended", "ann")
	require.NoError(t, err)
	out := s.runOK(t, "exceptions")
	assert.Regexp(t, `^api   ann +x10 +until it is removed, by bob: "launch"
api   "evil\\x1b\[2J\\u202e\\u2028" +blocked +until it is removed, by an operator: "\\u202elaunch"
jobs  ann +blocked +ends in 1 h \d\d min
$`, out)
	var read struct {
		Exceptions []struct{ Policy, Key, By string }
	}
	require.NoError(t, json.Unmarshal([]byte(s.runOK(t, "exceptions", "-json")), &read))
	assert.Len(t, read.Exceptions, 3)
	assert.Equal(t, "jobs", read.Exceptions[2].Policy)
	assert.NotContains(t, s.runOK(t, "exceptions", "-keys", "hide"), "ann")
	for line, says := range map[string]string{
		"api jobs": "takes one POLICY, or none for all", "api http://a/x": "add -replicas", "api -replicas": "-replicas needs URL…",
		"-replicas http://a -replica-user x": "-replica-user and ADMINLIMIT_USER must be NAME:PASSWORD", "-replicas redis://a": "that of a Redis",
		"-replicas http://a -replica-insecure": "-replica-insecure are for https://",
	} {
		out, errs, code := s.run(t, "exceptions", strings.Fields(line)...)
		assert.Equal(t, cli.Misused, code, line)
		assert.Empty(t, out)
		assert.Contains(t, errs, says, line)
	}
}

func TestHistorySaysWhoRemovedABlock(t *testing.T) {
	s := serve(t)
	assert.Contains(t, s.runOK(t, "history", "api"), "api has no history in Redis.\n")
	s.runOK(t, "block", "-policies", "p.yaml", "api", "ip:192.0.2.7", "-by", "bob", "-reason", "scraper", "-for", "7days")
	_, _, stands := s.run(t, "override", "-policies", "p.yaml", "api", "ip:192.0.2.7", "9/day name burst", "-by", "ann")
	assert.Equal(t, cli.Found, stands, "the block stands")
	_, _, stands = s.run(t, "override", "-policies", "p.yaml", "api", "ip:192.0.2.7", "-remove", "-by", "ann", "-reason", "over")
	assert.Equal(t, cli.Found, stands, "the block stands")
	s.runOK(t, "unblock", "-policies", "p.yaml", "api", "ip:192.0.2.7", "-by", "eve", "-reason", steering[:4])
	_, _, code := s.run(t, "unblock", "-policies", "p.yaml", "api", "ip:192.0.2.7")
	assert.Equal(t, cli.Found, code)
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: steering, By: "\u202e", Reason: "<b>"}))
	const at = `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC +`
	out := s.runOK(t, "history", "api")
	assert.Regexp(t, `^`+at+`block +"evil\\x1b\[2J\\u202e\\u2028" +by "\\u202e": "<b>"
`+at+`unblock +ip:192\.0\.2\.7 +by \S+ \(Redis had none\)
`+at+`unblock +ip:192\.0\.2\.7 +by eve: "evil"
`+at+`remove +ip:192\.0\.2\.7 +by ann: "over"
`+at+`override +ip:192\.0\.2\.7 +9/day name burst by ann
`+at+`block +ip:192\.0\.2\.7 +by bob until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: "scraper"
$`, out)
	var read struct{ Changes []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(s.runOK(t, "history", "api", "-json")), &read))
	require.Len(t, read.Changes, 6)
	assert.Equal(t, "eve", read.Changes[2]["by"])
	assert.NotContains(t, s.runOK(t, "history", "api", "-keys", "hide"), "192.0.2.7")
	assert.Contains(t, s.runOK(t, "history", "apo"), "apo has no history in Redis: did you mean api?")
	_, errs, code := s.run(t, "history", "-policies", "p.yaml", "apo")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "did you mean api?")
	assert.Contains(t, s.runOK(t, "list", "-policies", "p.yaml", "api"), "api: 0 keys", "a history is no bucket")
	assert.Contains(t, s.runOK(t, "find", "ip:192.0.2.7"), "0 keys found, of 0\n")
}

// Who deletes a customer's data deletes it from the history too.
func TestForgetDropsTheHistoryOfACustomer(t *testing.T) {
	s := serve(t)
	for _, key := range []string{"header:x-api-key:k-1", "header:x-api-key:k-2", "header:x-api-key:k-1"} {
		require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: key}))
	}
	_, err := s.store.Unblock(t.Context(), "api", "header:x-api-key:k-1")
	require.NoError(t, err)
	require.NoError(t, s.store.SetException(t.Context(), "jobs", redisstore.Exception{Key: "header:x-api-key:k-1"}))
	assert.Contains(t, s.runOK(t, "find", "k-1"), "The history of exceptions has 4 changes of the customer.\n")
	assert.Contains(t, s.runOK(t, "forget", "-dry-run", "k-1"), "The history of exceptions would lose 4 changes of the customer.\n")
	assert.Contains(t, s.runOK(t, "history", "api"), "k-1", "-dry-run drops nothing")
	assert.Contains(t, s.runOK(t, "forget", "k-1"), "The history of exceptions had, and has no more, 4 changes of the customer.\n")
	for _, policy := range []string{"api", "jobs"} {
		assert.NotContains(t, s.runOK(t, "history", policy), "k-1")
	}
	assert.Contains(t, s.runOK(t, "history", "api"), "k-2")
}

func TestCopyKeepsTheHistory(t *testing.T) {
	from, to := own(t), own(t)
	require.NoError(t, from.store.SetException(t.Context(), "api", redisstore.Exception{Key: "ann", By: "bob", Reason: "launch", For: time.Hour}))
	_, err := from.store.RemoveException(t.Context(), "api", redisstore.Removal{Key: "eve", By: "zoe"})
	require.NoError(t, err)
	from.runOK(t, "copy", "-dry-run", "redis://"+from.addr, "redis://"+to.addr)
	assert.Contains(t, to.runOK(t, "history", "api"), "no history")
	for range 2 {
		assert.Contains(t, from.runOK(t, "copy", "-replace", "redis://"+from.addr, "redis://"+to.addr), "and 1 exception\n")
		assert.Equal(t, from.runOK(t, "history", "api"), to.runOK(t, "history", "api"), "a copy is no change")
	}
	assert.Contains(t, to.runOK(t, "exceptions", "api"), `by bob: "launch"`)
}

// replicas runs exceptions -replicas as ann.
func (s *service) replicas(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	t.Setenv("ADMINLIMIT_USER", "ann:"+password) // what the command reads is set below
	out, errs, code := s.run(t, "exceptions", append([]string{"-replicas", "-replica-user", "ann:" + password}, args...)...)
	assert.NotContains(t, out+errs, password)
	return out, code
}

// Of each replica it says whether it obeys what is in Redis, and what it lacks.
func TestExceptionsSayWhichReplicasObey(t *testing.T) {
	s := own(t)
	follows, stuck, deaf := replicaOf(t, 5, httptest.NewServer), replicaOf(t, 5, httptest.NewServer), replicaOf(t, 5, httptest.NewServer)
	stop := follows.follow(s.store)
	defer stop()
	out, code := s.replicas(t, "api", deaf.url)
	assert.Equal(t, "api: 0 overrides and 0 blocks in Redis, no version\n  "+deaf.url+": not followed: what operators write into Redis changes nothing here\n", out)
	assert.Equal(t, cli.OK, code, "there is nothing to follow")

	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.Limit{Times: 2}}}))
	require.NoError(t, s.store.ReadExceptions(t.Context(), stuck.limiter))
	before, err := s.store.ExceptionsVersion(t.Context(), "api")
	require.NoError(t, err)
	stuck.limiter.SetFollowing(store.Following{Since: time.Now().Add(-time.Hour), Read: time.Now().Add(-10 * time.Minute), Version: before})
	require.Eventually(t, func() bool { return follows.limiter.Following().Version == before }, 20*time.Second, 10*time.Millisecond)
	out, code = s.replicas(t, "-wait", "0", follows.url, stuck.url)
	assert.Regexp(t, `^api: 1 override and 0 blocks in Redis, version .* UTC\n  `+follows.url+`: obeys, read \d+ s ago\n  `+stuck.url+`: obeys this version, and learns of no other: read 10 min( \d+ s)? ago\n$`, out)
	assert.Equal(t, cli.Found, code)

	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "ip:192.0.2.7"}))
	out, code = s.replicas(t, "-wait", "20s", follows.url, "http://127.0.0.1:1/admin/limits")
	assert.Contains(t, out, follows.url+": obeys, read ", "it waits for replicas to follow")
	assert.Contains(t, out, "not read: http://127.0.0.1:1/admin/limits: dial tcp")
	assert.Equal(t, cli.Unavailable, code)
	out, code = s.replicas(t, "-wait", "0", follows.url, stuck.url, deaf.url, "http://127.0.0.1:1/admin/limits")
	assert.Regexp(t, stuck.url+`: has not followed yet: it obeys version .* UTC, read 10 min( \d+ s)? ago\n    it lacks the block of ip:192\.0\.2\.7\n`, out)
	assert.Contains(t, out, deaf.url+": not followed: what operators write into Redis changes nothing here\n    it lacks the override of ann, the block of ip:192.0.2.7\n")
	assert.Equal(t, cli.Found, code, "who has not followed counts more than who can't be read")
	var read struct {
		Policies []struct {
			Policy   string
			Replicas []struct {
				Obeys bool
				Lacks []oncall.Exception
			}
		}
	}
	out, _ = s.replicas(t, "-wait", "0", "-json", follows.url, stuck.url)
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	assert.True(t, read.Policies[0].Replicas[0].Obeys)
	assert.Equal(t, []oncall.Exception{{Key: "ip:192.0.2.7", Blocked: true}}, read.Policies[0].Replicas[1].Lacks)

	// top says so too.
	out, _, _ = top(t, asAnn, follows.url, stuck.url, deaf.url)
	assert.Regexp(t, `api: 2 exceptions in force
  ann +x2 +until it is removed; not at `+deaf.url+`
  ip:192\.0\.2\.7 +blocked +until it is removed; not at `+stuck.url+`, `+deaf.url+`
api has not the same exceptions in all replicas:
  not followed: at `+deaf.url+`
  version .* UTC, 1 override and 0 blocks, read 10 min( \d+ s)? ago: at `+stuck.url+`
  version .* UTC, 1 override and 1 block: at `+follows.url+"\n", out)
	out, _, _ = top(t, asAnn, "-keys", "hide", follows.url, stuck.url)
	assert.NotContains(t, out, "192.0.2.7")
	out, _, _ = top(t, asAnn, "-json", "-keys", "hide", follows.url, stuck.url)
	assert.NotContains(t, out, "192.0.2.7")
	out, _, _ = top(t, asAnn, follows.url)
	assert.NotContains(t, out, "not the same")

	// Redis restarts empty: who follows puts it back.
	require.NoError(t, s.client.FlushAll(t.Context()).Err())
	out, code = s.replicas(t, "-wait", "20s", "api", follows.url)
	assert.Contains(t, out, "api: 1 override and 1 block in Redis")
	assert.Equal(t, cli.OK, code)
	stop()
	require.NoError(t, s.client.FlushAll(t.Context()).Err())
	follows.limiter.SetFollowing(store.Following{Since: time.Now(), Read: time.Now(), Version: before + 1})
	out, code = s.replicas(t, "-wait", "0", "api", follows.url)
	assert.Contains(t, out, "which Redis has lost: it is not put back\n    it has the override of ann, the block of ip:192.0.2.7\n")
	assert.Equal(t, cli.Found, code)
}

// A key that is quoted is quoted once, and its bytes are not shown if it is
// hidden.
func TestExceptionsOfReplicasHaveTheirKeys(t *testing.T) {
	s := own(t)
	p := replicaOf(t, 5, httptest.NewServer)
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "o'brien"}))
	out, _, _ := top(t, asAnn, p.url)
	assert.NotContains(t, out, "brien", "the premise: it does not follow")
	out, _ = s.replicas(t, "-wait", "0", "-json", p.url)
	assert.Contains(t, out, `"key_base64": "bydicmllbg=="`)
	out, _ = s.replicas(t, "-wait", "0", "-json", "-keys", "hide", p.url)
	assert.NotContains(t, out, "base64")
	require.NoError(t, s.store.ReadExceptions(t.Context(), p.limiter))
	out, _, _ = top(t, asAnn, p.url)
	assert.Contains(t, out, `  "o\x27brien"  blocked`)
	out, _, _ = top(t, asAnn, "-json", p.url)
	assert.Contains(t, out, `"key": "\"o\\x27brien\""`)
	assert.Contains(t, out, `"key_base64": "bydicmllbg=="`)
	out, _, _ = top(t, asAnn, "-json", "-keys", "hide", p.url)
	assert.NotContains(t, out, "base64")
}

// A replica that can't use an exception obeys the version, and not all of it.
func TestExceptionsSayWhatAReplicaCantUse(t *testing.T) {
	s := own(t)
	p := replicaOf(t, 5, httptest.NewServer)
	defer p.follow(s.store)()
	blocks := map[string]string{"": "7 0 0"}
	for i := range redisstore.MaxExceptions - 1 {
		blocks["block:user:"+strconv.Itoa(i)] = `5 5 0 {"blocked":true}`
	}
	require.NoError(t, s.client.HSet(t.Context(), "ratelimit:%exceptions:api", blocks).Err())
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: steering, Limits: []core.Limit{core.PerDay(9).WithName("no such limit")}}))
	out, code := s.replicas(t, "-wait", "20s", "api", p.url)
	assert.Contains(t, out, "api: 1 override and 999 blocks in Redis")
	assert.Contains(t, out, p.url+": obeys this version, but not all of it: read ")
	assert.Contains(t, out, `it lacks the override of "evil\x1b[2J\u202e\u2028"`)
	assert.Equal(t, cli.Found, code)
	out, _ = s.replicas(t, "other", p.url)
	assert.Contains(t, out, p.url+": has no policy other\n")
}

// What replicas send can't steer a terminal, and one of an earlier version says
// nothing of exceptions.
func TestExceptionsOfReplicasAreHarmless(t *testing.T) {
	s := own(t)
	answer := func(exceptions string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"policies": [{"name": "p\u001b[2J", "hash": "x"%s}], "denied": {}}`, exceptions)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	old := answer("")
	out, code := s.replicas(t, old)
	assert.Contains(t, out, old+": does not say what it obeys: its adminlimit is of an earlier version\n")
	assert.Equal(t, cli.Found, code)
	for _, evil := range []string{
		`{"followed": true, "version": 9223372036854775807, "read_seconds_ago": 1e300, "list": [{"key": "\u001b[2J\u202e", "blocked": true, "by": "\u001b", "reason": "\u001b", "ends_in_seconds": 1e300, "limits": ["\u001b"]}]}`,
		`{"followed": true, "version": -1, "read_seconds_ago": -5, "list": [{}, {"key": "", "limits": ["\u001b"]}]}`, `{}`, `{"followed": true, "overrides": -1}`,
	} {
		url := answer(`, "exceptions": ` + evil)
		out, _ := s.replicas(t, "-wait", "0", url)
		assert.NotContains(t, out, "\x1b")
		assert.NotContains(t, out, "\u202e")
		out, errs, code := top(t, asAnn, url, old)
		assert.Equal(t, cli.OK, code, errs)
		assert.NotContains(t, out, "\x1b")
		assert.NotContains(t, out, "\u202e")
	}
}
