//go:build !js

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// start starts a demo, which ends with the test. In a bubble of synctest, its
// time passes at once.
func start(t *testing.T, at place) *demo {
	t.Helper()
	d, err := newDemo(at)
	require.NoError(t, err)
	go d.tick(t.Context())
	t.Cleanup(d.close)
	return d
}

// call asks the demo something, as a page does.
func call(t *testing.T, d *demo, method, path string, body any) (int, string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, bytes.NewReader(text))
	r.RemoteAddr = "127.0.0.1:80" // whose bucket the picture shows
	d.mux.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// asks asks the demo something, which must be answered with a status.
func asks(t *testing.T, d *demo, want int, method, path string, body any) string {
	t.Helper()
	status, text := call(t, d, method, path, body)
	require.Equal(t, want, status, "%s: %s", path, text)
	return text
}

// playing runs a test with a demo in a bubble of synctest.
func playing(t *testing.T, test func(t *testing.T, d *demo)) {
	synctest.Test(t, func(t *testing.T) { test(t, start(t, inProcess("test"))) })
}

// limited is the status of a request to the endpoint.
func limited(t *testing.T, d *demo) int {
	status, _ := call(t, d, http.MethodGet, "/limited", nil)
	return status
}

type fields = map[string]any

// set changes settings of a chapter.
func set(t *testing.T, d *demo, chapter string, f any) {
	t.Helper()
	asks(t, d, http.StatusOK, http.MethodPost, "/api/settings/"+chapter, f)
}

// played plays a script to its end, and returns what came of it.
func played(t *testing.T, d *demo, chapter, script string, o order) string {
	t.Helper()
	asks(t, d, http.StatusAccepted, http.MethodPost, "/api/run/"+chapter+"/"+script, o)
	d.playing.Wait()
	c := d.chapter(chapter)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.False(t, c.run.Running)
	return c.run.Text
}

// page is what a page hears.
type page struct {
	t        *testing.T
	messages chan message
	hello    string
}

func open(t *testing.T, d *demo) *page {
	t.Helper()
	hello, messages := d.greet(t.Context())
	return &page{t, messages, string(hello.data)}
}

// next waits for a message of a name.
func (p *page) next(name string) string {
	p.t.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case m, open := <-p.messages:
			require.True(p.t, open, "the page was cut off before %q", name)
			if m.name == name {
				return string(m.data)
			}
		case <-limit:
			require.FailNow(p.t, "the page heard nothing of "+name)
		}
	}
}

func read[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// tokens are those of a chapter's buckets, as a page is told them, by service.
func tokens(t *testing.T, d *demo, chapter string) map[string]int64 {
	t.Helper()
	hello, messages := d.greet(t.Context())
	d.leave(messages)
	list := map[string]int64{}
	for _, b := range read[greeting](t, string(hello.data)).Buckets {
		if b.Chapter == chapter && len(b.Limits) > 0 {
			list[b.Service] = b.Limits[0].Tokens
		}
	}
	return list
}

const hour = 3600e3 // ms, in which nothing comes back while a test looks

// A burst is told in the order of the decisions: ten that leave 9, 8 … 0, and
// five that were denied, with when to retry and the answers.
func TestABurstIsToldInItsOrder(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		p := open(t, d)
		said := played(t, d, "drain", "burst", order{N: 15})
		require.Equal(t, "15 at once: 10 allowed, 5 denied. There were 10 tokens, and a request takes 1.", said)
		list := read[[]decision](t, p.next("decisions"))
		require.Len(t, list, 15)
		for i, m := range list {
			require.EqualValues(t, i+1, m.ID)
			require.EqualValues(t, max(0, 9-i), m.Remaining, "decision %d", i)
			require.Equal(t, m.Remaining, m.Limits[0].Tokens)
			require.Equal(t, i < 10, m.Allowed, "decision %d", i)
			require.Equal(t, "store", m.Source)
			require.Contains(t, m.Headers, [2]string{"X-Ratelimit-Remaining", strconv.FormatInt(m.Remaining, 10)})
			if !m.Allowed {
				require.EqualValues(t, 1000, m.Retry, "ms until a token comes")
				require.Contains(t, m.Headers, [2]string{"Retry-After", "1"})
				require.Contains(t, m.Body, "quota-exceeded", "the library's own answer")
			}
		}
	})
}

// The endpoint is limited by the first picture's bucket, whoever asks.
func TestTheEndpointDrainsTheFirstPicture(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		for range 10 {
			require.Equal(t, http.StatusOK, limited(t, d))
		}
		require.Equal(t, http.StatusTooManyRequests, limited(t, d))
		time.Sleep(time.Second)
		require.Equal(t, http.StatusOK, limited(t, d))
		d.mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/limited", nil))
		p := open(t, d)
		time.Sleep(1100 * time.Millisecond)
		require.Contains(t, p.next("buckets"), `"key":"ip:192.0.2.1"`, "who asks from elsewhere has a bucket in the picture too")
	})
}

// Tokens that come back are told as of when they were due, and not as of when
// the demo looked, until the bucket is full.
func TestTokensThatComeBackAreTold(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		set(t, d, "drain", fields{"capacity": 3, "interval_ms": 330})
		p := open(t, d)
		played(t, d, "drain", "burst", order{N: 3})
		last := read[[]decision](t, p.next("decisions"))[2].bucket
		for want := range int64(3) {
			told := read[[]bucket](t, p.next("buckets"))[0]
			require.Equal(t, want+1, told.Limits[0].Tokens)
			require.InDelta(t, 330, told.At-last.At, 0.01)
			last = told
		}
		require.Zero(t, last.Limits[0].Next, "a full bucket waits for nothing")
		time.Sleep(time.Minute)
		require.Empty(t, p.messages, "nothing is told while nothing happens")
	})
}

// calls is a store that counts its calls.
type calls struct {
	core.Store

	n atomic.Int64
}

func (c *calls) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	c.n.Add(1)
	return c.Store.Do(ctx, r)
}

// A changed rate does not change the tokens that are seen: not those that have
// come back under the rate before, as the bucket is written before the change,
// and not those that were taken. As many as are seen can be taken.
func TestAChangeOfTheSettingsTouchesTheBucketFirst(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	counted := &calls{Store: core.NewMemoryStore(core.WithClock(func() time.Time { return now }))}
	d, err := newDemo(place{store: counted})
	require.NoError(t, err)
	later := func(ms int) { now = now.Add(time.Duration(ms) * time.Millisecond) }
	shown := func() int64 { return tokens(t, d, "drain")[""] }
	for _, c := range []struct {
		change fields
		left   int64 // just after it, of 10 of which 5 were taken
		second int64 // a second later
	}{
		{fields{"rate": 3}, 5, 8},
		{fields{"rate": 0.5}, 5, 5},
		{fields{"rate": 1, "interval_ms": 500}, 5, 7},
		{fields{"rate": 10, "interval_ms": 60_000, "mode": "stepped"}, 5, 5},
		{fields{"capacity": 20}, 15, 16},
		{fields{"capacity": 3}, 0, 1},
	} {
		set(t, d, "drain", fields{"capacity": 10, "rate": 1, "interval_ms": 1000, "mode": "continuous"})
		require.NoError(t, d.chapter("drain").fill(t.Context()))
		for range 10 {
			require.Equal(t, http.StatusOK, limited(t, d))
		}
		later(5000)
		require.EqualValues(t, 5, shown())
		before := counted.n.Load()
		_, err := d.chapter("drain").change(t.Context(), encode("", c.change).data)
		require.NoError(t, err)
		require.Greater(t, counted.n.Load(), before, "the store is called before %v holds", c.change)
		require.Equal(t, c.left, shown(), "just after %v", c.change)
		later(1000)
		require.Equal(t, c.second, shown(), "a second after %v", c.change)
		for range c.second {
			require.Equal(t, http.StatusOK, limited(t, d), "what is shown can be taken after %v", c.change)
		}
		require.Equal(t, http.StatusTooManyRequests, limited(t, d), "and no more after %v", c.change)
	}
}

func TestPagesAreToldTheSame(t *testing.T) {
	playing(t, func(t *testing.T, d *demo) {
		one, other := open(t, d), open(t, d)
		require.Equal(t, one.hello, other.hello)
		limited(t, d)
		told := one.next("decisions")
		require.Contains(t, told, `["X-Ratelimit-Limit","10"]`)
		require.Equal(t, told, other.next("decisions"))
		set(t, d, "drain", fields{"capacity": 3})
		told = one.next("settings")
		require.Contains(t, told, `"capacity":3`)
		require.Equal(t, told, other.next("settings"))
		require.Contains(t, open(t, d).hello, `"capacity":3`, "a page that comes later")
	})
}

// A page that takes nothing is cut off: the demo waits for nobody.
func TestAPageThatIsFarBehindIsCutOff(t *testing.T) {
	d, err := newDemo(inProcess("test"))
	require.NoError(t, err)
	p := open(t, d)
	for range backlog + 1 {
		d.turnRedis(true)
	}
	require.Empty(t, d.pages)
	for range backlog {
		p.next("redis")
	}
	_, open := <-p.messages
	require.False(t, open)
}

// Without its store, this process decides alone, and says so.
func TestDecisionsWithoutTheStoreAreToldAsSuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &cutOff{Store: core.NewMemoryStore()}
		away.off.Store(true)
		d := start(t, place{store: away})
		p := open(t, d)
		for range 12 {
			limited(t, d)
		}
		for i, m := range read[[]decision](t, p.next("decisions")) {
			require.Equal(t, "fallback", m.Source)
			require.EqualValues(t, max(0, 9-i), m.Limits[0].Tokens, "what this process has left")
			require.Equal(t, i >= 10, m.Retry > 0)
		}
		require.Contains(t, played(t, d, "drain", "fill", order{}), "could not be filled")
	})
}

// Two demos on one Redis share the buckets.
func TestDemosOnOneRedisShareTheBuckets(t *testing.T) {
	prefix := redistest.Prefix()
	demos := make([]*demo, 2)
	for i := range demos {
		s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(prefix))
		demos[i] = start(t, place{buckets: "in Redis", url: "redis://localhost:6379", store: s})
		set(t, demos[i], "drain", fields{"interval_ms": hour})
	}
	for range 4 {
		require.Equal(t, http.StatusOK, limited(t, demos[0]))
	}
	require.Contains(t, open(t, demos[1]).hello, `"place":"in Redis"`)
	require.EqualValues(t, 6, tokens(t, demos[1], "drain")[""])
	played(t, demos[1], "drain", "fill", order{})
	require.EqualValues(t, 10, tokens(t, demos[0], "drain")[""])
}

// Another site's page can't have the demo do anything.
func TestAForeignPageChangesNothing(t *testing.T) {
	d := start(t, inProcess("test"))
	h, err := d.handler()
	require.NoError(t, err)
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		r := httptest.NewRequest(method, "/api/run/drain/burst", bytes.NewReader([]byte("{}")))
		r.Header.Set("Origin", "https://evil.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusForbidden, w.Code)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'self'")
}
