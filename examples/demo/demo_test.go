//go:build !js

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// serve starts a demo without Redis.
func serve(t *testing.T) *server {
	t.Helper()
	return serveOn(t, inProcess())
}

func serveOn(t *testing.T, b *backend) *server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	d, err := newServer(b, "http://"+server.Listener.Addr().String())
	require.NoError(t, err)
	server.Config.Handler = d
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // event streams would not end by themselves
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(d.close)
	t.Cleanup(cancel)
	go d.tick(ctx)
	return d
}

func call(t *testing.T, d *server, method, path string, body any) (int, string) {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	q, err := http.NewRequestWithContext(t.Context(), method, d.url+path, bytes.NewReader(text))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var got bytes.Buffer
	_, err = got.ReadFrom(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, got.String()
}

type fields = map[string]any

// set changes settings of a stage.
func set(t *testing.T, d *server, stage string, f fields) {
	t.Helper()
	status, text := call(t, d, http.MethodPost, "/api/settings/"+stage, f)
	require.Equal(t, http.StatusOK, status, text)
}

// playedOut plays a script to its end, and returns what came of it.
func playedOut(t *testing.T, d *server, stage, script string, o order) string {
	t.Helper()
	status, text := call(t, d, http.MethodPost, "/api/run/"+stage+"/"+script, o)
	require.Equal(t, http.StatusAccepted, status, text)
	d.playing.Wait()
	st := d.stage(stage)
	st.mu.Lock()
	defer st.mu.Unlock()
	require.False(t, st.run.Running)
	return st.run.Text
}

// logOf is the log of a stage.
func logOf(t *testing.T, d *server, stage string) (list []decision) {
	t.Helper()
	status, text := call(t, d, http.MethodGet, "/api/log", nil)
	require.Equal(t, http.StatusOK, status)
	var all []decision
	require.NoError(t, json.Unmarshal([]byte(text), &all))
	for _, m := range all {
		if m.Stage == stage {
			list = append(list, m)
		}
	}
	return list
}

type event struct{ name, data string }

// listen opens a page's stream of events. It ends with the test.
func listen(t *testing.T, d *server) <-chan event {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/events", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		name := ""
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<22)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			} else if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				events <- event{name, text}
			}
		}
	}()
	return events
}

// next waits for an event of a name.
func next(t *testing.T, events <-chan event, name string) string {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case e, open := <-events:
			require.True(t, open, "the stream ended before %q", name)
			if e.name == name {
				return e.data
			}
		case <-limit:
			require.Fail(t, "no event "+name)
		}
	}
}

const hour = 3600e3 // ms, in which nothing comes back while a test looks

func TestAllFrameworksDrainOneBucket(t *testing.T) {
	d := serve(t)
	set(t, d, "drain", fields{"capacity": len(frameworks), "interval_ms": hour})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		for _, f := range frameworks {
			got, body := call(t, d, http.MethodGet, "/"+f.name+"/limited", nil)
			require.Equal(t, want, got, "%s: %s", f.name, body)
		}
	}
	for i, m := range logOf(t, d, "drain") {
		require.Equal(t, frameworks[i%5].name, m.Framework)
		require.EqualValues(t, max(0, 4-i), m.Remaining, "each decision is told with what it left")
		require.Equal(t, "store", m.Source, m.Framework)
	}
}

// A burst is told in the order of the decisions: ten that leave 9, 8 … 0, and five that were denied, with when to retry.
func TestABurstIsToldInItsOrder(t *testing.T) {
	d := serve(t)
	events := listen(t, d)
	next(t, events, "hello")
	set(t, d, "drain", fields{"interval_ms": hour})
	require.Equal(t, "15 at once: 10 allowed, 5 denied. There were 10 tokens, and a request takes 1.", playedOut(t, d, "drain", "burst", order{N: 15}))
	log := logOf(t, d, "drain")
	require.Len(t, log, 15)
	at := 0.0
	for i, m := range log {
		require.EqualValues(t, max(0, 9-i), m.Remaining, "decision %d", i)
		require.Equal(t, i < 10, m.Allowed, "decision %d", i)
		require.Equal(t, m.Remaining, m.Limits[0].Tokens)
		require.Equal(t, i >= 10, m.Retry > hour-60e3 && m.Retry <= hour, "decision %d: retry in %v ms", i, m.Retry)
		require.GreaterOrEqual(t, m.At, at, "time goes forward")
		at = m.At
	}
	var told []decision
	for len(told) < 15 {
		var more struct{ List []decision }
		require.NoError(t, json.Unmarshal([]byte(next(t, events, "decisions")), &more))
		told = append(told, more.List...)
	}
	require.Contains(t, fmt.Sprint(told[14].Headers), "[Retry-After 3600]")
	for _, m := range told {
		if m.Framework == "gin" && !m.Allowed {
			require.Contains(t, m.Body, "quota-exceeded", "the problem body")
		}
	}
}

// While a decision is made, and until it is told, nothing is told of its bucket that comes after it.
func TestNothingIsToldAheadOfADecision(t *testing.T) {
	d, err := newDemo(inProcess(), "127.0.0.1")
	require.NoError(t, err)
	t.Cleanup(d.close)
	st, ask := d.stage("drain"), httptest.NewRequest(http.MethodGet, "/gin/limited", nil)
	ask.Header.Set(userHeader, users[0])
	first := st.lane("").request(ask, st, "gin")
	d.begin(first)
	st.serve(httptest.NewRecorder(), ask, st.lane(""), first)
	require.EqualValues(t, 9, first.Remaining)
	d.limited(httptest.NewRecorder(), ask, "gin") // the second
	d.tellBuckets(d.look(t.Context()))
	d.tell()
	require.Empty(t, d.log["drain"])
	require.Zero(t, d.known[first.bucketID()])
	d.add(first)
	d.tellBuckets(d.look(t.Context()))
	require.Zero(t, d.known[first.bucketID()])
	d.tell()
	require.EqualValues(t, 9, d.log["drain"][0].Remaining)
	require.EqualValues(t, 8, d.log["drain"][1].Remaining)
	require.EqualValues(t, 8, d.known[first.bucketID()].Limits[0].Tokens)
}

// After limits changed the page shows as many tokens as can be taken.
func TestWhatIsShownAfterAChangeCanBeTaken(t *testing.T) {
	d := serve(t)
	for _, c := range [][2]fields{
		{{"capacity": 100, "rate": 100, "interval_ms": 10_000}, {"rate": 1, "interval_ms": hour}},
		{{"capacity": 100, "rate": 1, "interval_ms": hour}, {"capacity": 10}},
		{{"capacity": 10, "rate": 1, "interval_ms": hour}, {"capacity": 100}},
		{{"capacity": 100, "rate": 1, "interval_ms": hour}, {"rate": 100, "mode": "stepped"}},
	} {
		c[0]["mode"] = "continuous"
		set(t, d, "drain", c[0])
		playedOut(t, d, "drain", "fill", order{})
		for range 98 {
			call(t, d, http.MethodGet, "/http/limited", nil)
		}
		set(t, d, "drain", c[1])
		var shown bucket
		for _, b := range d.look(t.Context()) {
			if b.Stage == "drain" {
				shown = b
			}
		}
		passed := int64(0)
		for status := http.StatusOK; status == http.StatusOK && passed < 200; {
			if status, _ = call(t, d, http.MethodGet, "/http/limited", nil); status == http.StatusOK {
				passed++
			}
		}
		require.Equal(t, shown.Limits[0].Tokens, passed, "from %v to %v", c[0], c[1])
	}
}

func TestPagesAreToldTheSame(t *testing.T) {
	d := serve(t)
	one, other := listen(t, d), listen(t, d)
	for _, events := range []<-chan event{one, other} {
		next(t, events, "hello")
	}
	call(t, d, http.MethodGet, "/chi/limited", nil)
	told := next(t, one, "decisions")
	require.Contains(t, told, `"framework":"chi"`)
	require.Contains(t, told, `["X-Ratelimit-Limit","10"]`)
	require.Equal(t, told, next(t, other, "decisions"))
	set(t, d, "drain", fields{"capacity": 3})
	told = next(t, one, "settings")
	require.Contains(t, told, `"capacity":3`)
	require.Equal(t, told, next(t, other, "settings"))
	require.Contains(t, next(t, listen(t, d), "hello"), `"capacity":3`, "a page that comes later")
}

// Tokens that come back are told when they come, until the bucket is full; then nothing is told any more.
func TestTokensThatComeBackAreTold(t *testing.T) {
	d := serve(t)
	set(t, d, "drain", fields{"capacity": 3, "interval_ms": 500})
	events := listen(t, d)
	next(t, events, "hello")
	playedOut(t, d, "drain", "burst", order{N: 3})
	last, tokens := bucket{}, int64(0)
	for tokens < 3 {
		var list []bucket
		require.NoError(t, json.Unmarshal([]byte(next(t, events, "buckets")), &list))
		require.Greater(t, list[0].Limits[0].Tokens, tokens)
		if tokens > 0 {
			gained := float64(list[0].Limits[0].Tokens - tokens)
			require.InDelta(t, 500*gained, list[0].At-last.At, 450, "told as of when it came")
		}
		last, tokens = list[0], list[0].Limits[0].Tokens
	}
	require.Zero(t, last.Limits[0].Next, "a full bucket waits for nothing")
}

// One burst plays by itself when a page is opened, but not where somebody did something, and not with Redis away.
func TestABurstPlaysByItselfOnce(t *testing.T) {
	auto := func(d *server) int {
		status, _ := call(t, d, http.MethodPost, "/api/run/drain/burst", order{N: 15, Auto: true})
		d.playing.Wait()
		return status
	}
	d := serve(t)
	require.Equal(t, http.StatusAccepted, auto(d))
	require.Equal(t, http.StatusNoContent, auto(d), "another tab has just acted")
	b := inProcess()
	b.store = away{b.store}
	require.Equal(t, http.StatusNoContent, auto(serveOn(t, b)), "Redis is away")
}

// away is a store that does not answer, so that this process decides alone.
type away struct{ core.Store }

func (away) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errors.New("dial tcp 10.1.2.3:6379: too slow")
}

func TestDecisionsOfThisProcessAloneAreToldAsSuch(t *testing.T) {
	b := inProcess()
	b.store = away{b.store}
	d := serveOn(t, b)
	set(t, d, "drain", fields{"interval_ms": hour})
	for _, f := range frameworks {
		for range 3 {
			call(t, d, http.MethodGet, "/"+f.name+"/limited", nil)
		}
	}
	log := logOf(t, d, "drain")
	require.Len(t, log, 15)
	for i, m := range log {
		require.Equal(t, "fallback", m.Source, m.Framework)
		require.EqualValues(t, max(0, 9-i), m.Limits[0].Tokens, "what this process has left")
		require.Equal(t, !m.Allowed, m.Retry > 0)
	}
}

func TestAScriptPlaysOnceAndCanBeStopped(t *testing.T) {
	d := serve(t)
	status, _ := call(t, d, http.MethodPost, "/api/run/yours/steady", order{Rate: 2, Seconds: 60})
	require.Equal(t, http.StatusAccepted, status)
	status, text := call(t, d, http.MethodPost, "/api/run/yours/users", order{})
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text, "it plays already")
	status, _ = call(t, d, http.MethodDelete, "/api/run/yours", nil)
	require.Equal(t, http.StatusNoContent, status)
	d.playing.Wait()
	require.Equal(t, "Stopped.", d.stage("yours").run.Text)
	for path, want := range map[string]int{"/api/run/nowhere/play": 404, "/api/run/drain/play": 404, "/api/settings/share": 404} {
		status, _ := call(t, d, http.MethodPost, path, order{})
		require.Equal(t, want, status, path)
	}
}

func TestOnlyGETIsLimited(t *testing.T) {
	d := serve(t)
	status, _ := call(t, d, http.MethodHead, "/gin/limited", nil)
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Empty(t, logOf(t, d, "drain"))
}
