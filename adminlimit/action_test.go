package adminlimit_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// hashOf is how the documentation says a hash is made.
func hashOf(t *testing.T, p core.Policy) string {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:12]
}

// busy is a store's statistics.
type busy storestats.Stats

func (b busy) Stats() storestats.Stats { return storestats.Stats(b) }

// The state has all that is in force, and says since when. What the test
// compares with comes from the limiters.
func TestTheStateIsThatOfTheLimiters(t *testing.T) {
	stats := busy{Breaker: storestats.BreakerOpen, Opened: 3, Away: 90 * time.Second, Calls: 5, Decisions: 50, Denied: 6, Leased: 7, Unreadable: 8}
	a := start(t, adminlimit.WithRedisStore("main", stats))
	p := a.api.Policy()
	p.Overrides = map[string][]core.Limit{"user:ann": {core.PerDay(5).WithName("daily")}}
	p.Limits, p.OnFailure = append(p.Limits, core.PerDay(1000).WithName("daily")), core.FailClosed
	require.NoError(t, a.api.SetPolicy(p))
	require.NoError(t, a.login.SetShadow(true))
	for range 7 {
		_, err := a.login.Allow(t.Context(), "user:ann")
		require.NoError(t, err)
	}
	var policies []map[string]any
	for _, l := range []*core.Limiter{a.api, a.login} {
		p, limits := l.Policy(), []string{}
		for _, limit := range p.Limits {
			limits = append(limits, limit.String())
		}
		policies = append(policies, map[string]any{
			"name": p.Name, "hash": hashOf(t, p), "since": l.Since().UTC().Truncate(time.Second), "limits": limits,
			"overrides": len(p.Overrides), "blocked": len(p.Blocked), "on_failure": p.OnFailure.String(), "shadow": p.Shadow,
			"exceptions": map[string]any{"followed": false, "version": 0, "overrides": 0, "blocks": 0, "list": []any{}},
		})
	}
	report := a.top.Report()
	_, text := a.send(t, "GET", "", "", nil)
	var got struct {
		Denied struct{ Policies []map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	report.Policies[0].Until, _ = time.Parse(time.RFC3339, got.Denied.Policies[0]["until"].(string))
	want, err := json.Marshal(map[string]any{
		"version": 1, "by": "ann", "writable": false, "policies": policies, "denied": report,
		"stores": []any{map[string]any{
			"name": "main", "breaker": stats.Breaker.String(), "opened": stats.Opened, "away_seconds": stats.Away.Seconds(), "calls": stats.Calls,
			"decisions": stats.Decisions, "deny_cache": stats.Denied, "leased": stats.Leased, "unreadable": stats.Unreadable,
		}},
	})
	require.NoError(t, err)
	assert.JSONEq(t, string(want), text)
	assert.EqualValues(t, 2, report.Policies[0].Shadow, "the premise: shadow mode let two pass")

	_, page := a.send(t, "GET", "", "", html)
	for _, want := range []string{hashOf(t, a.api.Policy()), "FailClosed", "1000/day name daily", "on: denies nobody", "user:ann", "2 denied since ", "all by shadow mode alone", "1 min 30 s", ">open<", "Store main does not answer, for "} {
		assert.Contains(t, page, want, "the page shows what JSON has")
	}
}

func TestPeekShowsWhatIsLeft(t *testing.T) {
	a := start(t)
	look := func() map[string]any {
		status, answer := a.post(t, "action", "peek", "policy", "login", "key", "user:ann")
		require.Equal(t, http.StatusOK, status)
		return answer["peek"].(map[string]any)
	}
	peek := look()
	assert.Equal(t, true, peek["unused"], "never used")
	assert.Equal(t, true, peek["passes"])
	for range 8 {
		_, err := a.login.Allow(t.Context(), "user:ann")
		require.NoError(t, err)
	}
	peek = look()
	assert.Equal(t, false, peek["unused"])
	assert.Equal(t, false, peek["passes"], "a request is denied")
	assert.EqualValues(t, 3, peek["denied"], "it is among those that are denied most")
	assert.Equal(t, a.login.LogKey("user:ann"), peek["log_key"])
	assert.Equal(t, "store", peek["source"])
	limit := peek["limits"].([]any)[0].(map[string]any)
	assert.Equal(t, map[string]any{
		"name": "login", "limit": "5/15min", "remaining": 0.0, "capacity": 5.0, "full_in_seconds": limit["full_in_seconds"], "retry_in_seconds": limit["retry_in_seconds"],
	}, limit)
	assert.InDelta(t, 180, limit["retry_in_seconds"], 180, "a token takes three minutes")
	assert.Regexp(t, `^denied: login is used up, next token in \d`, peek["says"], "the next token is told, as ratelimit get does")
	assert.InDelta(t, 900, limit["full_in_seconds"], 180, "five tokens take 15 minutes")
	again := look()
	assert.InDelta(t, 0, again["limits"].([]any)[0].(map[string]any)["remaining"], 0, "a look takes nothing")

	require.NoError(t, a.login.Debit(t.Context(), "user:ann", 5))
	limit = look()["limits"].([]any)[0].(map[string]any)
	assert.Greater(t, limit["retry_in_seconds"], 900.0, "a debt is shown")
	require.NoError(t, a.login.SetShadow(true))
	peek = look()
	assert.Equal(t, []any{true, true}, []any{peek["shadow"], peek["passes"]}, "in shadow mode every request passes")
	_, page := a.send(t, http.MethodPost, "", "action=peek&policy=login&key=user:ann", html)
	assert.Contains(t, page, "in shadow mode")
	assert.Contains(t, page, "login owes 5 tokens, next token in ")
	assert.Contains(t, page, "allowed in ")
	assert.NotContains(t, a.log.String(), "user:ann")
}

func TestResetIsAnsweredAndLogged(t *testing.T) {
	for _, plain := range []bool{false, true} {
		options := []adminlimit.Option{adminlimit.Writable()}
		if plain {
			options = append(options, adminlimit.WithKeysInLog())
		}
		a := start(t, options...)
		shown := a.login.LogKey("user:ann")
		if plain {
			shown = "user:ann"
		}
		_, err := a.login.AllowN(t.Context(), "user:ann", 5)
		require.NoError(t, err)
		status, answer := a.post(t, "action", "reset", "policy", "login", "key", "user:ann")
		require.Equal(t, http.StatusOK, status)
		assert.Equal(t, map[string]any{
			"action": "reset", "by": "ann", "policy": "login", "key": "user:ann", "before": "login: 0 of 5 tokens left", "after": "login: 5 of 5 tokens left",
			"note": "other processes may repeat a denial for as long as their deny cache keeps it",
		}, answer["done"])
		res, err := a.login.Peek(t.Context(), "user:ann")
		require.NoError(t, err)
		assert.EqualValues(t, 5, res.Remaining)
		assert.Contains(t, a.log.String(), `level=INFO msg="ratelimit: changed by hand" who=ann action=reset policy=login key=`+shown+` before="login: 0 of 5 tokens left" after="login: 5 of 5 tokens left"`)
		assert.Equal(t, plain, strings.Contains(a.log.String(), "user:ann"), "keys are hashed in the log, unless the app says otherwise")
	}
}

func TestShadowIsTurnedOnAndOff(t *testing.T) {
	a := start(t, adminlimit.Writable())
	for _, c := range []struct{ action, before, after string }{{"shadow-on", "off", "on"}, {"shadow-on", "on", "on"}, {"shadow-off", "on", "off"}} {
		seen := hashOf(t, a.api.Policy())
		status, answer := a.post(t, "action", c.action, "policy", "api", "hash", seen)
		require.Equal(t, http.StatusOK, status)
		done := answer["done"].(map[string]any)
		assert.Equal(t, []any{c.before, c.after, "in this process, until its next reload or start"}, []any{done["before"], done["after"], done["note"]})
		assert.Equal(t, c.after == "on", a.api.Policy().Shadow)
		assert.Contains(t, a.log.String(), "who=ann action="+c.action+" policy=api before="+c.before+" after="+c.after)
	}
	assert.False(t, a.login.Policy().Shadow, "of one policy alone")

	require.NoError(t, a.api.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60).WithUnit("tokens")}, Shadow: true}))
	_, err := a.api.AllowUnits(t.Context(), "k", core.Units{"tokens": 1})
	require.NoError(t, err)
	require.NoError(t, a.api.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}, Shadow: true}))
	status, answer := a.post(t, "action", "shadow-off", "policy", "api")
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, answer["error"], "RL117", "the library says why a policy can't be set")
	assert.Nil(t, answer["done"])
	assert.Contains(t, a.log.String(), `msg="ratelimit: a change by hand failed" who=ann action=shadow-off policy=api`)
}

func TestReloadSetsAllOrNone(t *testing.T) {
	a := start(t, adminlimit.Writable())
	_, answer := a.post(t, "action", "reload")
	assert.Equal(t, "the file has the policies that are in force: nothing has changed", answer["done"].(map[string]any)["note"])

	require.NoError(t, os.WriteFile(a.path, []byte("- {name: api, limits: [90/min]}\n- {name: login, limits: [five/min]}\n"), 0o600))
	status, answer := a.post(t, "action", "reload")
	assert.Equal(t, http.StatusConflict, status)
	assert.Contains(t, answer["error"], `"five" must be a number`, "the mistakes of the file are shown")
	assert.NotContains(t, answer["error"], strings.TrimSuffix(a.path, "policies.yaml"), "and not where it is")
	assert.EqualValues(t, 60, a.api.Capacity("k"), "none is set")

	before := hashOf(t, a.api.Policy())
	require.NoError(t, os.WriteFile(a.path, []byte(strings.ReplaceAll(file, "60", "90")), 0o600))
	status, answer = a.post(t, "action", "reload")
	require.Equal(t, http.StatusOK, status)
	after := hashOf(t, a.api.Policy())
	done := answer["done"].(map[string]any)
	assert.Equal(t, []any{"api " + before, "api " + after}, []any{done["before"], done["after"]}, "the hashes of what has changed")
	assert.EqualValues(t, 90, a.api.Capacity("k"))
	assert.Contains(t, a.log.String(), `who=ann action=reload before="api `+before+`" after="api `+after+`"`)

	require.NoError(t, os.Remove(a.path))
	status, answer = a.post(t, "action", "reload")
	assert.Equal(t, http.StatusConflict, status)
	assert.NotContains(t, answer["error"], strings.TrimSuffix(a.path, "policies.yaml"))

	server := httptest.NewServer(adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(a.api), adminlimit.Writable()))
	defer server.Close()
	resp, err := http.PostForm(server.URL, url.Values{"action": {"reload"}})
	require.NoError(t, err)
	defer resp.Body.Close()
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, "without a file there is nothing to reload")
}

// away is a store that does not answer, with an error that nobody should see.
type away struct{ core.Store }

func (away) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errors.New("dial tcp 10.0.0.9:6379: WRONGPASS for user:ann")
}

func (away) Reset(context.Context, string, string) error {
	return errors.New("dial tcp 10.0.0.9:6379: WRONGPASS for user:ann")
}

// What a store says of its trouble is for the log of the limiter, and neither
// for clients nor with a key for this log.
func TestNothingInternalLeaks(t *testing.T) {
	for mode, want := range map[core.FailureMode]string{core.FailClosed: "", core.FailLocal: "fallback", core.FailOpen: "fail-open"} {
		l := core.Must(core.NewLimiter(away{core.NewMemoryStore()}, core.Policy{Name: "far", Limits: []core.Limit{core.PerDay(1)}, OnFailure: mode}))
		a := start(t, adminlimit.Writable(), adminlimit.Limiters(l))
		status, answer := a.post(t, "action", "peek", "policy", "far", "key", "user:ann")
		if mode == core.FailClosed {
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Equal(t, core.ErrUnavailable.Error(), answer["error"])
		} else {
			assert.Equal(t, want, answer["peek"].(map[string]any)["source"], "who knows is said")
		}
		status, answer = a.post(t, "action", "reset", "policy", "far", "key", "user:ann")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Nil(t, answer["done"])
		text, err := json.Marshal(answer)
		require.NoError(t, err)
		for _, out := range []string{string(text), a.log.String()} {
			assert.NotContains(t, out, "10.0.0.9")
			assert.NotContains(t, out, "WRONGPASS")
		}
		assert.NotContains(t, a.log.String(), "user:ann")
		assert.Contains(t, a.log.String(), "a change by hand failed", "who tried is logged too")
		_, page := a.send(t, http.MethodPost, "", "action=peek&policy=far&key=k", html)
		assert.Equal(t, mode == core.FailOpen, strings.Contains(page, "not known: the store does not answer"))
	}
}

// Of two users who look at one policy and both change it, the second is told;
// what any of them did is there.
func TestTwoUsersAtOnceLoseNothing(t *testing.T) {
	a := start(t, adminlimit.Writable())
	seen := hashOf(t, a.api.Policy())
	status, _ := a.post(t, "action", "shadow-on", "policy", "api", "hash", seen)
	require.Equal(t, http.StatusOK, status)
	status, answer := a.post(t, "action", "shadow-on", "policy", "api", "hash", seen)
	assert.Equal(t, http.StatusConflict, status)
	assert.Equal(t, "the policy has changed since you looked at it: look again", answer["error"])

	var all sync.WaitGroup
	for user := range 3 {
		all.Go(func() {
			for i := range 30 {
				switch (user + i) % 3 {
				case 0:
					a.post(t, "action", "shadow-on", "policy", "login")
				case 1:
					a.post(t, "action", "reload")
				case 2:
					a.post(t, "action", "reset", "policy", "login", "key", "k")
				}
				_, _ = a.login.Allow(context.Background(), "k")
			}
		})
	}
	all.Go(func() {
		for n := range int64(100) {
			p := a.api.Policy()
			p.Shadow = n%2 == 0
			assert.NoError(t, a.api.SetPolicy(p), "the app sets policies too")
		}
	})
	all.Wait()
	status, answer = a.post(t, "action", "reload")
	assert.Equal(t, http.StatusOK, status, answer["error"])
	assert.Equal(t, []bool{false, false}, []bool{a.api.Policy().Shadow, a.login.Policy().Shadow}, "a reload sets what the file says")
}

// Names and keys can hold what HTML means something by, and what nobody can
// see.
func TestThePageEscapes(t *testing.T) {
	const name, key = `<script>alert(1)</script> & "a'`, "\"><script>alert(2)</script>\u202egnp"
	evil := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: name, Limits: []core.Limit{core.PerDay(1).WithName("<b>")}}))
	a := start(t, adminlimit.Writable(), adminlimit.Limiters(evil), adminlimit.WithRedisStore("<i>", busy{}))
	for range 2 {
		_, err := a.login.AllowN(t.Context(), key, 5)
		require.NoError(t, err)
	}
	for _, form := range []url.Values{
		{"action": {"peek"}, "policy": {name}, "key": {key}}, {"action": {"reset"}, "policy": {name}, "key": {key}},
		{"action": {"peek"}, "policy": {"<script>"}, "key": {key}}, {"<script>": {"1"}},
	} {
		_, page := a.send(t, http.MethodPost, "", form.Encode(), func(r *http.Request) { html(r); r.Header.Set("X-User", "<u>ann") })
		for _, never := range []string{"<script", "<b>", "<i>", "<u>"} {
			assert.NotContains(t, page, never, "%v", form)
		}
		assert.Contains(t, page, `value="&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#34;a&#39;"`, "forms send the name as it is")
		assert.Contains(t, page, `\u202egnp`, "a key whose characters would turn the text around is quoted")
	}
}

func TestTopIsBoundedAndSaysWhatItLeavesOut(t *testing.T) {
	a := start(t)
	for i := range 30 {
		for range 6 + i {
			_, err := a.login.Allow(t.Context(), "user:"+string(rune('A'+i)))
			require.NoError(t, err)
		}
	}
	for query, want := range map[string]int{"": 20, "?top=3": 3, "?top=1000": 30} {
		_, text := a.send(t, "GET", query, "", nil)
		var answer struct {
			Denied struct {
				Policies []struct {
					Keys     []any
					Unlisted int `json:"unlisted_at_most"`
				}
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		assert.Len(t, answer.Denied.Policies[0].Keys, want, query)
		assert.Equal(t, 30-want, answer.Denied.Policies[0].Unlisted, "the next key was denied so often")
	}
}

// However many policies and keys there are, an answer has at most 10,000 keys.
func TestOneAnswerIsBounded(t *testing.T) {
	a := start(t)
	for policy := range 30 {
		for range 4 {
			for key := range 100 {
				a.top.Observe(t.Context(), core.Observation{Policy: fmt.Sprint("tenant-", policy), Key: fmt.Sprint("user:", key), Outcome: core.OutcomeDenied})
			}
		}
	}
	for policy := range 100 {
		for key := range 100 {
			a.top.Observe(t.Context(), core.Observation{Policy: fmt.Sprint("plan-", policy), Key: fmt.Sprint("user:", key), Outcome: core.OutcomeDenied})
		}
	}
	_, text := a.send(t, "GET", "?top=1000", "", nil)
	var answer struct{ Denied denied.Report }
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	require.Len(t, answer.Denied.Policies, 130)
	keys := 0
	for _, p := range answer.Denied.Policies {
		keys += len(p.Keys)
		assert.True(t, len(p.Keys) > 0 || p.Unlisted >= 4, "%s: what is left out is said", p.Policy)
	}
	assert.Equal(t, 10_000, keys)
}

// On Redis a reset by hand ends the denials that this process repeats, and the
// store's statistics are those of the work.
func TestOnRedis(t *testing.T) {
	s := redisstore.New(redistest.Start(t).Client(t), redisstore.WithTimeout(20*time.Second))
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "far", Limits: []core.Limit{core.PerDay(1)}}))
	a := start(t, adminlimit.Writable(), adminlimit.Limiters(l), adminlimit.WithRedisStore("main", s))
	for i := range 3 {
		res, err := l.Allow(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, i == 0, res.Allowed, "the premise: one a day")
	}
	status, answer := a.post(t, "action", "peek", "policy", "far", "key", "k")
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, false, answer["peek"].(map[string]any)["passes"])
	status, answer = a.post(t, "action", "reset", "policy", "far", "key", "k")
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, "far: 1 of 1 tokens left", answer["done"].(map[string]any)["after"])
	res, err := l.Allow(t.Context(), "k")
	require.NoError(t, err)
	assert.True(t, res.Allowed)
	stats := answer["stores"].([]any)[0].(map[string]any)
	assert.Equal(t, "closed", stats["breaker"])
	assert.Positive(t, stats["calls"])
}

// A zone without a name can be in a limiter and in no JSON: its policy has a
// hash too.
func TestAPolicyWithoutJSONHasAHash(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	made := func(n, pro int64) *core.Limiter {
		return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
			Name: "zone", Limits: []core.Limit{core.PerDay(n).In(zone)}, Overrides: map[string][]core.Limit{"k": {core.PerDay(n + 1).In(zone)}},
			Plans: map[string][]core.Limit{"pro": {core.PerDay(pro).In(zone)}},
		}))
	}
	hash := func(l *core.Limiter) any {
		_, text := start(t, adminlimit.Limiters(l)).send(t, "GET", "", "", nil)
		var answer struct{ Policies []map[string]any }
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		return answer.Policies[2]["hash"]
	}
	first, second := hash(made(5, 9)), hash(made(5, 9))
	assert.Equal(t, first, second, "the same policy has the same hash")
	assert.NotEqual(t, first, hash(made(6, 9)))
	assert.NotEqual(t, first, hash(made(5, 8)), "a plan is part of the policy")
}

// The page and JSON show plans, and say by which one a key was last decided.
func TestPlansAreShown(t *testing.T) {
	client, prefix := redistest.Client(t), redistest.Prefix()
	store := redisstore.New(client, redisstore.WithPrefix(prefix), redisstore.WithTimeout(5*time.Second))
	l := core.Must(core.NewLimiter(store, core.Policy{
		Name: "paid", Limits: []core.Limit{core.PerDay(10).WithName("day")}, Plans: map[string][]core.Limit{"pro": {core.PerDay(1000).WithName("day")}},
	}))
	_, err := core.Must(l.WithPlan("pro")).AllowN(t.Context(), "user:bob", 16)
	require.NoError(t, err)
	a := start(t, adminlimit.Limiters(l))
	for range 2 { // a look leaves nothing behind
		_, answer := a.post(t, "action", "peek", "policy", "paid", "key", "user:bob")
		assert.Equal(t, []any{map[string]any{"name": "pro", "limits": []any{"1000/day name day"}}}, answer["policies"].([]any)[2].(map[string]any)["plans"])
		peek := answer["peek"].(map[string]any)
		assert.Equal(t, []any{"pro", "allowed: 984 of 1,000 tokens left of day"}, []any{peek["plan"], peek["says"]})
	}
	_, page := a.send(t, "POST", "", "action=peek&policy=paid&key=user:bob", func(r *http.Request) { r.Header.Set("Accept", "text/html") })
	assert.Contains(t, page, "<code>1000/day</code> (plan &#34;pro&#34;)")
	assert.Contains(t, page, "<li>plan <code>pro</code>: <code>1000/day name day</code></li>")
}

// What an operator has set is told with who, until when and why. Of limits that
// this process does not have nothing is said.
func TestExceptionsAndForeignLimitsAreShown(t *testing.T) {
	for name, s := range map[string]core.Store{"memory": core.NewMemoryStore(), "redis": redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(5*time.Second))} {
		t.Run(name, func(t *testing.T) {
			day := func(n int) core.Limit { return core.PerDay(n).WithName("day") }
			l := core.Must(core.NewLimiter(s, core.Policy{
				Name: "paid", Limits: []core.Limit{day(10), core.PerMinute(60).WithName("minute")}, Plans: map[string][]core.Limit{"pro": {day(1000), core.PerMinute(600).WithName("minute")}},
			}))
			require.NoError(t, l.SetExceptions(core.Exceptions{
				Overrides:     map[string][]core.Limit{"user:bob": {core.PerMinute(6000).WithName("minute")}},
				OverrideNotes: map[string]store.ExceptionNote{"user:bob": {By: "ann", Until: time.Unix(2e9, 0), Reason: "launch"}},
			}))
			_, err := core.Must(l.WithPlan("pro")).AllowN(t.Context(), "user:bob", 16)
			require.NoError(t, err)
			_, err = core.Must(l.WithLimits(day(70))).AllowN(t.Context(), "user:eve", 44)
			require.NoError(t, err)
			a := start(t, adminlimit.Limiters(l))
			_, page := a.send(t, "POST", "", "action=peek&policy=paid&key=user:bob", func(r *http.Request) { r.Header.Set("Accept", "text/html") })
			assert.Contains(t, page, "<code>1000/day</code> (plan &#34;pro&#34;)")
			assert.Contains(t, page, "<code>6000/min</code> (an override of ann until 2033-05-18 03:33:20 UTC: &#34;launch&#34;)")
			for range 2 { // a look leaves nothing behind
				_, answer := a.post(t, "action", "peek", "policy", "paid", "key", "user:eve")
				peek := answer["peek"].(map[string]any)
				assert.Equal(t, []any{true, false, "not known: day was last decided with a capacity of 70, which this process does not have"}, []any{peek["unknown"], peek["passes"], peek["says"]})
			}
		})
	}
}

// Whatever is sent: no answer is a failure of the server, JSON is valid, and a
// handler that is read-only changes nothing.
func FuzzRequests(f *testing.F) {
	f.Add("POST", "", "action=peek&policy=api&key=k", true)
	f.Add("POST", "format=json&top=5", "action=reset&policy=api&key=k", false)
	f.Add("POST", "", "action=shadow-on&policy=api&hash=", true)
	f.Add("GET", "top=-1", "action=reload;policy", false)
	f.Add("POST", "%", "key=%ff&action=peek&policy=api", true)
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	_, err := l.AllowN(context.Background(), "k", 60)
	require.NoError(f, err)
	h := adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(l))
	f.Fuzz(func(t *testing.T, method, query, body string, page bool) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Method, r.URL.RawQuery = method, query
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if page {
			html(r)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("the server fails: %d %s", w.Code, w.Body)
		}
		if text := w.Body.String(); strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			if strings.Contains(text, "<script") {
				t.Fatal("the page has no scripts", text)
			}
		} else if !json.Valid([]byte(text)) {
			t.Fatal("JSON is valid", text)
		}
		if l.Policy().Shadow {
			t.Fatal("read-only changes nothing")
		}
	})
}

func TestPeekSaysThatAKeyIsBlocked(t *testing.T) {
	a := start(t)
	p := a.login.Policy()
	p.Blocked = []string{"user:mallory"}
	require.NoError(t, a.login.SetPolicy(p))
	status, answer := a.post(t, "action", "peek", "policy", "login", "key", "user:mallory")
	require.Equal(t, http.StatusOK, status)
	peek := answer["peek"].(map[string]any)
	assert.Equal(t, []any{true, false}, []any{peek["blocked"], peek["passes"]}, "its bucket is full, and it is denied")
	_, page := a.send(t, http.MethodPost, "", "action=peek&policy=login&key=user:mallory", html)
	assert.Contains(t, page, "denied: the policy blocks this key")
}

// Keys are taken as logs and the report of denials show them, and as stores
// have them: whoever reads one of these can paste it.
func TestKeysAreTakenAsTheyAreShown(t *testing.T) {
	a := start(t, adminlimit.Writable())
	long := "user:" + strings.Repeat("x", 200)
	p := a.login.Policy()
	p.Overrides = map[string][]core.Limit{"vip:ann": {core.PerDay(7).WithName("login")}}
	require.NoError(t, a.login.SetPolicy(p))
	for _, key := range []string{"user:ann", long} {
		for range 7 {
			_, err := a.login.Allow(t.Context(), key)
			require.NoError(t, err)
		}
	}
	_, text := a.send(t, "GET", "", "", nil)
	assert.Contains(t, text, store.Key(long), "the premise: the report shows a long key by its hash")
	for given, key := range map[string]string{
		"user:ann": "user:ann", a.login.LogKey("user:ann"): "user:ann", long: long, store.Key(long): store.Key(long), a.login.LogKey(store.Key(long)): store.Key(long),
	} {
		status, answer := a.post(t, "action", "peek", "policy", "login", "key", given)
		require.Equal(t, http.StatusOK, status)
		peek := answer["peek"].(map[string]any)
		assert.Equal(t, []any{key, false, 2.0}, []any{peek["key"], peek["passes"], peek["denied"]}, given)
	}
	status, answer := a.post(t, "action", "peek", "policy", "login", "key", a.login.LogKey("vip:ann"))
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, "vip:ann", answer["peek"].(map[string]any)["key"], "keys with limits of their own are known too")
	_, page := a.send(t, "GET", "", "", html)
	assert.Equal(t, 2, strings.Count(page, "look up</button>"), "each denied key can be looked up")
	for _, given := range []string{store.Key(long), a.login.LogKey("user:ann")} {
		status, answer = a.post(t, "action", "reset", "policy", "login", "key", given)
		require.Equal(t, http.StatusOK, status)
		assert.Equal(t, "login: 5 of 5 tokens left", answer["done"].(map[string]any)["after"])
	}
	for _, key := range []string{long, "user:ann"} {
		res, err := a.login.Allow(t.Context(), key)
		require.NoError(t, err)
		assert.True(t, res.Allowed, "the bucket of the key itself is reset")
	}
}

func TestPeekTellsExceptions(t *testing.T) {
	a := start(t)
	p, long := a.login.Policy(), "user:"+strings.Repeat("x", 200)
	p.Blocked = []string{"user:mallory"}
	require.NoError(t, a.login.SetPolicy(p))
	require.NoError(t, a.login.SetExceptions(core.Exceptions{
		Overrides: map[string][]core.Limit{"user:mallory": {core.PerDay(7).WithName("login")}, "user:ann": {core.PerDay(7).WithName("login")}},
		Blocked:   []string{"user:ann", store.Key(long)},
	}))
	for key, want := range map[string][]any{
		"user:mallory": {true, true, false}, // a block of the policy comes before all
		"user:ann":     {true, true, false},
		long:           {true, false, false},
		"user:joe":     {false, false, true},
	} {
		status, answer := a.post(t, "action", "peek", "policy", "login", "key", key)
		require.Equal(t, http.StatusOK, status)
		peek := answer["peek"].(map[string]any)
		assert.Equal(t, want, []any{peek["blocked"], peek["override"], peek["passes"]}, "blocked, an override, and passes: %.20s", key)
	}
}
