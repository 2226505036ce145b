package adminlimit_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
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
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// shownState is what is read of the JSON of a policy.
type shownState struct {
	Overrides, Blocked int
	Exceptions         oncall.Exceptions
}

// What operators have set and a process obeys is on its page, with the end,
// author and reason of each, and with how old it is.
func TestThePageShowsWhatIsInForce(t *testing.T) {
	server := redistest.Start(t)
	redis := redisstore.New(server.Client(t), redisstore.WithTimeout(5*time.Second))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	limiter := core.Must(core.NewLimiter(redis, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}, Blocked: []string{"ip:192.0.2.1"}}))
	handler := adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(limiter))
	show := func(query string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+query, nil))
		require.Equal(t, http.StatusOK, w.Code)
		return w.Body.String()
	}
	state := func() shownState {
		var answer struct{ Policies []shownState }
		require.NoError(t, json.Unmarshal([]byte(show("")), &answer))
		return answer.Policies[0]
	}
	assert.Contains(t, show("?format=html"), "not followed: what operators write into Redis changes nothing here")
	assert.False(t, state().Exceptions.Followed)

	for _, e := range []redisstore.Exception{
		{Key: "header:x-api-key:k-123", Limits: []core.Limit{core.PerDay(100).WithName("api")}, For: 90 * time.Minute, By: "ann", Reason: "launch"},
		{Key: "ip:192.0.2.7", By: "<script>alert(1)</script>", Reason: "\u202eevil\u2028 <b>" + strings.Repeat("x", 200)}, {Key: "\x00\xff\x1b[2J<i>"},
	} {
		require.NoError(t, redis.SetException(ctx, "api", e))
	}
	var running sync.WaitGroup
	running.Go(func() { redis.FollowExceptions(ctx, limiter) })
	require.Eventually(t, func() bool { return state().Exceptions.Version > 0 }, 20*time.Second, 10*time.Millisecond)
	s := state()
	assert.Equal(t, []int{1, 3}, []int{s.Overrides, s.Blocked}, "counts have the policy's and the operators'")
	assert.Equal(t, []int{1, 2}, []int{s.Exceptions.Overrides, s.Exceptions.Blocks})
	version, err := redis.ExceptionsVersion(ctx, "api")
	require.NoError(t, err)
	assert.Equal(t, version, s.Exceptions.Version)
	assert.InDelta(t, 5400, s.Exceptions.List[1].EndsIn, 60)
	s.Exceptions.List[1].EndsIn = 0
	assert.Equal(t, []oncall.Exception{
		{Key: `"\x00\xff\x1b[2J<i>"`, Blocked: true},
		{Key: "header:x-api-key:k-123", Limits: []string{"100/day name api"}, By: "ann", Reason: "launch"},
		{Key: "ip:192.0.2.7", Blocked: true, By: "<script>alert(1)</script>", Reason: "\u202eevil\u2028 <b>" + strings.Repeat("x", 200)},
	}, s.Exceptions.List)
	page := show("?format=html")
	for _, shown := range []string{"1 override and 2 blocks by operators, " + oncall.VersionText(version), `<span class="good">read 1 s ago</span>`, "<code>100/day name api</code>", `<td data-label="End">ends in 1 h `, "launch"} {
		assert.Contains(t, page, shown)
	}
	for _, hostile := range []string{"<script>", "\u202e", "\u2028", "<b>", "<i>", "\x00", "\x1b"} {
		assert.NotContains(t, page, hostile)
	}

	server.Pause()
	limiter.SetFollowing(store.Following{Since: time.Now().Add(-time.Hour), Read: time.Now().Add(-10 * time.Minute), Version: version})
	assert.Contains(t, show("?format=html"), `<span class="bad">read 10 min ago</span>`, "what is old is said to be")
	server.Resume()
	stop()
	running.Wait()
	assert.Contains(t, show("?format=html"), "read once, 1 s ago, and not followed since")
}

// A thousand exceptions are all in the JSON, and the page has the first.
func TestThePageShowsTheFirstOfMany(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}))
	var e core.Exceptions
	for i := range 1000 {
		e.Blocked = append(e.Blocked, "user:"+strconv.Itoa(1000+i))
	}
	require.NoError(t, limiter.SetExceptions(e))
	handler := adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(limiter))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?format=html", nil))
	assert.Equal(t, 100, strings.Count(w.Body.String(), "<code>user:"))
	assert.Contains(t, w.Body.String(), "The first 100 of 1000")
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	assert.Equal(t, 1000, strings.Count(w.Body.String(), `"key": "user:`))
}

// Where denied keys are hashes, keys of exceptions are too, and the same.
func TestExceptionsOfHashedKeys(t *testing.T) {
	top := core.Must(denied.New(denied.WithKeySecret(secret)))
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(5)}}, core.WithObserver(top.Observe)))
	require.NoError(t, limiter.SetExceptions(core.Exceptions{Blocked: []string{"user:ann"}}))
	_, err := limiter.Allow(t.Context(), "user:ann")
	require.NoError(t, err)
	handler := adminlimit.New(func(*http.Request) (string, bool) { return "bob", true }, adminlimit.Limiters(limiter), adminlimit.WithDenied(top))
	for _, query := range []string{"/", "/?format=html"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, query, nil))
		assert.NotContains(t, w.Body.String(), "user:ann")
		assert.Equal(t, 2, strings.Count(w.Body.String(), top.Form("user:ann")), "denied, and blocked")
	}
}
