package adminlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestLookSaysWhatIsLeft(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	memory := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	a := start(t, memory, func(c *adminlimit.Config) {
		slots := core.Policy{Name: "jobs", Limits: []core.Limit{core.InFlight(2)}}
		tokens := core.Policy{Name: "llm", Limits: []core.Limit{core.PerMinute(600).WithUnit("tokens")}}
		estimates := core.Policy{Name: "guess", Limits: []core.Limit{core.PerMinute(600).WithUnit("tokens").WithMaxHold(time.Minute)}}
		c.Limiters = append(c.Limiters, core.Must(core.NewLimiter(memory, slots)), core.Must(core.NewLimiter(memory, tokens)), core.Must(core.NewLimiter(memory, estimates)))
		_, err := c.Limiters[2].AllowN(t.Context(), "busy", 2)
		require.NoError(t, err)
		for _, l := range c.Limiters[3:] {
			_, err = l.AllowUnits(t.Context(), "busy", core.Units{"tokens": 600})
			require.NoError(t, err)
		}
	})
	p := a.login.Policy()
	p.Blocked = []string{"blocked"}
	require.NoError(t, a.login.SetPolicy(p))
	deny(t, a.login, "denied", 0)
	deny(t, a.login, "debtor", 0)
	require.NoError(t, a.login.Debit(t.Context(), "debtor", 5))
	_, err := a.login.AllowN(t.Context(), "used", 1)
	require.NoError(t, err)
	_, err = a.api.AllowN(t.Context(), "used", 60)
	require.NoError(t, err)
	for _, test := range []struct{ policy, plan, key, says, level string }{
		{"login", "", "unknown", "allowed: all limits are full, as of a key that nobody has used", "5 of 5 tokens left"},
		{"login", "", "used", "allowed", "4 of 5 tokens left, full in 3m"},
		{"login", "", "denied", "denied: the next request is allowed in 3m", "0 of 5 tokens left, enough in 3m"},
		{"login", "", "debtor", "denied: the next request is allowed in 18m", "owes 5 tokens, enough in 18m"},
		{"login", "", "blocked", "denied: the policy blocks the key", "5 of 5 tokens left"},
		{"api", "", "used", "denied: the next request is allowed in 1s", "0 of 60 tokens left, enough in 1s"},
		{"api", "pro", "used", "allowed", "540 of 600 tokens left, full in 6s"},
		{"jobs", "", "busy", "denied: the next request is allowed in 1m", "0 of 2 slots free, enough in 1m at the latest"},
		{"jobs", "", "idle", "allowed: all limits are full, as of a key that nobody has used", "2 of 2 slots free"},
		{"llm", "", "busy", "denied: the next request is allowed in 100ms", "0 of 600 tokens left, enough in 100ms"},
		{"guess", "", "busy", "denied: the next request is allowed in 1m", "0 of 600 tokens left, enough in 1m at the latest"},
	} {
		for range 2 { // a look takes nothing
			status, s := a.post(t, "action", "look", "policy", test.policy, "plan", test.plan, "key", test.key)
			require.Equal(t, http.StatusOK, status, s.Error)
			b := s.Bucket
			assert.Equal(t, []string{test.says, test.level, "store"}, []string{b.Says, b.Limits[0].Says, b.Source}, test)
			assert.Equal(t, strings.HasPrefix(test.says, "allowed"), b.Allows, test)
		}
	}
	a.post(t, "action", "shadow-on", "policy", "login")
	_, s := a.post(t, "action", "look", "policy", "login", "key", "denied")
	assert.Equal(t, "denied: the next request is allowed in 3m; in shadow mode each request is allowed", s.Bucket.Says)
	assert.True(t, s.Bucket.Allows)
	assert.InDelta(t, 180, s.Bucket.Limits[0].RetryIn, 1e-6)
	_, page := a.send(t, http.MethodPost, form("action", "look", "policy", "api", "plan", "pro", "key", "used"), asHTML)
	for _, want := range []string{"<code>used</code> under api, plan pro", "540 of 600 tokens left", `<meter max="600" value="540"`, "Reset: give all tokens back"} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, ">Block<", "without Redis nothing keeps exceptions")
}

func TestResetGivesAllTokensBack(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	deny(t, a.login, "user:ann", 0)
	status, s := a.post(t, "action", "reset", "policy", "login", "key", "user:ann")
	require.Equal(t, http.StatusOK, status)
	assert.Regexp(t, `^reset: login had 0 of 5 tokens left, enough in `, s.Done)
	assert.EqualValues(t, 5, s.Bucket.Limits[0].Remaining)
	res, err := a.login.Allow(t.Context(), "user:ann")
	require.NoError(t, err)
	assert.True(t, res.Allowed)
}

func TestReloadSetsAllPoliciesOrNone(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	for _, test := range []struct {
		file, says string
		status     int
		capacity   int64
	}{
		{file, "reloaded: the file has the policies that are in force", http.StatusOK, 60},
		{strings.ReplaceAll(file, "60/min", "90/min"), "reloaded: changed api in this process", http.StatusOK, 90},
		{"- {name: api, limits: [70/min]}\n- {name: login, limits: [five/min]}\n", `"five" is not a number`, http.StatusConflict, 90},
		{"- {name: api, limits: [70/min]}\n", `"login" is the policy of this limiter, and not in the file`, http.StatusConflict, 90},
		{"", "", http.StatusConflict, 90},
	} {
		require.NoError(t, os.WriteFile(a.path, []byte(test.file), 0o600))
		if test.file == "" {
			require.NoError(t, os.Remove(a.path))
		}
		status, s := a.post(t, "action", "reload")
		assert.Equal(t, test.status, status, test.file)
		assert.Contains(t, s.Done+s.Error, test.says, test.file)
		assert.NotContains(t, s.Error, strings.TrimSuffix(a.path, "policies.yaml"), "where the file is stays here")
		assert.Equal(t, test.capacity, a.api.Limits("k")[0].Capacity, test.file)
	}
}

func TestWithoutWritableNothingChanges(t *testing.T) {
	a := start(t, core.NewMemoryStore(), func(c *adminlimit.Config) { c.Writable = false })
	deny(t, a.login, "k", 0)
	assert.Equal(t, []string{"look"}, a.get(t).Actions)
	for _, action := range []string{"reset", "block", "override", "remove", "shadow-on", "shadow-off", "reload"} {
		status, s := a.post(t, "action", action, "policy", "login", "key", "k")
		assert.Equal(t, http.StatusForbidden, status, action)
		assert.Equal(t, "action must be one that this page can do: look", s.Error)
	}
	status, s := a.post(t, "action", "look", "policy", "login", "key", "k")
	assert.Equal(t, http.StatusOK, status)
	assert.Zero(t, s.Bucket.Limits[0].Remaining)
	_, page := a.send(t, http.MethodGet, nil, asHTML)
	assert.NotContains(t, page, "turn on", "the page offers nothing to change")
}

func TestMistakesInFormsAreExplained(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	look := func(fields ...string) []string { return append([]string{"action", "look"}, fields...) }
	for _, test := range []struct {
		fields []string
		status int
		says   string
	}{
		{nil, 403, "action must be one that this page can do: look, reset, shadow-on, shadow-off, reload"},
		{[]string{"action", "block", "policy", "login", "key", "k"}, 403, "action must be one that"},
		{look("policy", "nope", "key", "k"), 404, `no limiter here has the policy "nope"`},
		{look("policy", "login"), 400, "key is missing"},
		{look("policy", "login", "key", `""`), 400, "key is missing"},
		{look("policy", "login", "key", `"a"b"`), 400, "a key in double quotes must be a Go string"},
		{look("policy", "login", "key", "k", "plan", "gold"), 400, `"gold" is no plan of the policy`},
		{look("policy", "login", "key", strings.Repeat("k", 20_000)), 400, "longer than 16 KiB"},
		{look("policy", strings.Repeat("p", 10_000), "key", "k"), 404, "no limiter here"},
	} {
		status, s := a.post(t, test.fields...)
		assert.Equal(t, test.status, status, test.fields)
		assert.Contains(t, s.Error, test.says)
		assert.Less(t, len(s.Error), 300)
		assert.NotEmpty(t, s.InForce, "the page stays of use")
	}
}

// following starts an app on Redis that follows exceptions.
func following(t *testing.T) (*app, *redisstore.Store) {
	t.Helper()
	s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(5*time.Second))
	a := start(t, s, func(c *adminlimit.Config) { c.Redis, c.PolicyFile = s, "" })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.FollowExceptions(ctx, a.login) }()
	t.Cleanup(func() { stop(); <-done })
	require.Eventually(t, func() bool { return a.get(t).InForce[1].Followed }, 10*time.Second, time.Millisecond)
	return a, s
}

func TestExceptionsAreWrittenAndObeyedAtOnce(t *testing.T) {
	a, s := following(t)
	ctx := t.Context()
	post := func(fields ...string) adminlimit.State {
		status, state := a.post(t, append(fields, "policy", "login", "key", "user:ann")...)
		require.Equal(t, http.StatusOK, status, state.Error)
		return state
	}
	state := post("action", "override", "limits", "50/15min", "for", "24h", "reason", " launch day ")
	assert.Equal(t, "other limits: 50/15min, for 24h", state.Done)
	assert.Equal(t, "50 of 50 tokens left", state.Bucket.Limits[0].Says)
	override := state.InForce[1].Exceptions
	require.Len(t, override, 1)
	assert.InDelta(t, 24, time.Until(override[0].Until).Hours(), 1)
	override[0].Until = time.Time{}
	assert.Equal(t, adminlimit.Exception{Key: "user:ann", Limits: []string{"50/15min"}, By: "ann", Reason: "launch day"}, override[0])
	state = post("action", "block", "reason", "scan")
	assert.Equal(t, "blocked, until it is removed, in place of 50/15min", state.Done)
	assert.Equal(t, "denied: an operator blocks the key", state.Bucket.Says)
	res, err := a.login.Allow(ctx, "user:ann")
	require.NoError(t, err)
	assert.False(t, res.Allowed)
	got := state.InForce[1].Exceptions
	assert.Equal(t, []adminlimit.Exception{{Key: "user:ann", Blocked: true, By: "ann", Reason: "scan"}}, got)
	assert.Equal(t, state.Bucket.Exceptions, got, "they stand beside the bucket too")
	written, err := s.Exceptions(ctx, "login")
	require.NoError(t, err)
	assert.Len(t, written, 1, "Redis has it, for all processes")
	_, page := a.send(t, http.MethodPost, form("action", "look", "policy", "login", "key", "user:ann"), asHTML)
	for _, want := range []string{"Redis <span class=\"good\">answers", "exceptions by operators: 1", "scan", "until it is removed", "Remove exception", "not followed in Redis"} {
		assert.Contains(t, page, want)
	}

	state = post("action", "remove")
	assert.Equal(t, "removed what operators had set", state.Done)
	assert.Empty(t, state.InForce[1].Exceptions)
	assert.Equal(t, "there was no exception to remove", post("action", "remove").Done)
	hash := store.Key(strings.Repeat("k", 200))
	status, state := a.post(t, "action", "block", "policy", "login", "key", hash)
	assert.Equal(t, http.StatusOK, status, "a long key is blocked by its hash")
	assert.Equal(t, hash, state.InForce[1].Exceptions[0].Key)
	assert.Equal(t, "denied: an operator blocks the key", state.Bucket.Says, "and looked at by it")
	res, err = a.login.Allow(ctx, strings.Repeat("k", 200))
	require.NoError(t, err)
	assert.False(t, res.Allowed)
}

func TestExceptionsThatWouldNotHoldAreNotWritten(t *testing.T) {
	a, s := following(t)
	for _, test := range []struct {
		policy, action, limits, lasts, reason string
		status                                int
		says                                  string
	}{
		{"login", "override", "5", "", "", 400, "has no / between a rate and an interval"},
		{"login", "override", "", "", "", 400, "RL110"},
		{"login", "override", "5/min name other", "", "", 400, `"other" is no limit of the policy`},
		{"login", "override", "5/min, 6/min", "", "", 400, "RL"},
		{"login", "block", "", "soon", "", 400, "for must be such as 30m or 24h"},
		{"login", "block", "", "-1h", "", 400, "for must be such as 30m or 24h"},
		{"login", "block", "", "1us", "", 400, "must be 0, or at least 1 ms"},
		{"login", "block", "", "1h", strings.Repeat("x", 300), 400, "must be one line of text, at most 256 bytes"},
		{"login", "block", "", "1h", "a\nb", 400, "must be one line of text"},
		{"api", "block", "", "1h", "", 409, "this process does not follow exceptions in Redis"},
		{"api", "remove", "", "", "", 409, "this process does not follow exceptions in Redis"},
	} {
		status, state := a.post(t, "action", test.action, "policy", test.policy, "key", "k", "limits", test.limits, "for", test.lasts, "reason", test.reason)
		assert.Equal(t, test.status, status, test)
		assert.Contains(t, state.Error, test.says, test)
		written, err := s.Exceptions(t.Context(), test.policy)
		require.NoError(t, err)
		assert.Empty(t, written, test)
	}
}

// away is a store that does not answer, with an error that nobody should see.
type away struct{ core.Store }

var errAway = errors.New("dial tcp 10.0.0.9:6379: WRONGPASS for user:ann")

func (away) Do(context.Context, store.Request) (store.Answer, error) { return store.Answer{}, errAway }
func (away) Reset(context.Context, string, string) error             { return errAway }

func TestWhatAStoreSaysOfItsTroubleIsNotShown(t *testing.T) {
	for mode, says := range map[core.FailureMode]string{core.FailLocal: "allowed", core.FailOpen: "not known: Redis does not answer", core.FailClosed: ""} {
		a := start(t, core.NewMemoryStore(), func(c *adminlimit.Config) {
			far := core.Policy{Name: "far", Limits: []core.Limit{core.PerDay(1)}, OnFailure: mode}
			c.Limiters = append(c.Limiters, core.Must(core.NewLimiter(away{core.NewMemoryStore()}, far)))
		})
		status, s := a.post(t, "action", "look", "policy", "far", "key", "user:ann")
		if says == "" {
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Equal(t, core.ErrUnavailable.Error(), s.Error)
		} else {
			assert.Contains(t, s.Bucket.Says, says)
		}
		if mode == core.FailLocal {
			assert.Contains(t, s.Bucket.Says, "; of this process alone, since Redis does not answer")
		}
		status, s = a.post(t, "action", "reset", "policy", "far", "key", "user:ann")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Empty(t, s.Done)
		text, err := json.Marshal(s)
		require.NoError(t, err)
		for _, never := range []string{"10.0.0.9", "WRONGPASS"} {
			assert.NotContains(t, string(text)+a.log.String(), never)
		}
		assert.Contains(t, a.log.String(), `msg="ratelimit: a change by hand failed" who=ann action=reset policy=far error=`)
	}
}

func TestARedisThatIsAwayIsShown(t *testing.T) {
	server := redistest.Start(t)
	s := redisstore.New(server.Client(t), redisstore.WithBreaker(1, time.Hour), redisstore.WithTimeout(5*time.Second))
	a := start(t, s, func(c *adminlimit.Config) { c.Redis = s })
	assert.Equal(t, "closed", a.get(t).Redis.Breaker)
	server.Kill()
	require.Eventually(t, func() bool {
		_, _ = a.login.Allow(t.Context(), "k")
		return a.get(t).Redis.Breaker == "open"
	}, 20*time.Second, time.Millisecond)
	_, page := a.send(t, http.MethodGet, nil, asHTML)
	assert.Contains(t, page, `Redis <span class="bad">does not answer</span>`)
}

func TestWhoChangedWhatIsLogged(t *testing.T) {
	for _, keys := range []bool{false, true} {
		a := start(t, core.NewMemoryStore(), func(c *adminlimit.Config) { c.LogKeys = keys })
		for _, action := range []string{"look", "reset", "shadow-on", "reload"} {
			a.post(t, "action", action, "policy", "login", "key", "user:7")
		}
		log, key := a.log.String(), ""
		if keys {
			key = "key=user:7 "
		}
		assert.Contains(t, log, `level=INFO msg="ratelimit: changed by hand" who=ann action=reset policy=login `+key+`done="reset: login had 5 of 5 tokens left"`)
		assert.Contains(t, log, `who=ann action=shadow-on policy=login done="shadow mode is on, in this process, until its next reload or start"`)
		assert.Contains(t, log, `who=ann action=reload done="reloaded: changed login in this process"`)
		assert.Equal(t, keys, strings.Contains(log, "user:7"), "keys can be personal data")
		assert.NotContains(t, log, "look", "who looks changes nothing")
	}
}

func TestUsersAtOnceLoseNothing(t *testing.T) {
	a := start(t, core.NewMemoryStore(), nil)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, action := range []string{"shadow-on", "reload", "reset", "look", "shadow-off", "reload"} {
				status, s := a.post(t, "action", action, "policy", "login", "key", "k")
				assert.Equal(t, http.StatusOK, status, s.Error)
				_, _ = a.login.Allow(context.Background(), "k")
			}
		})
	}
	all.Wait()
	assert.False(t, a.login.Policy().Shadow, "the last change of each was a reload")
}
