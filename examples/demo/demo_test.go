package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// serve starts a demo without Redis.
func serve(t *testing.T) *demo {
	t.Helper()
	return serveOn(t, inProcess())
}

func serveOn(t *testing.T, b *backend) *demo {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	d, err := newDemo(b, "http://"+server.Listener.Addr().String())
	require.NoError(t, err)
	server.Config.Handler = d
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // event streams would not end by themselves
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	t.Cleanup(d.close)
	go d.tick(ctx)
	return d
}

func call(t *testing.T, d *demo, method, path string, body []byte) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, d.url+path, bytes.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var text bytes.Buffer
	_, err = text.ReadFrom(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, text.String()
}

type event struct{ name, data string }

// listen opens a page's stream of events. It ends with the test.
func listen(t *testing.T, d *demo) <-chan event {
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
		lines.Buffer(nil, 1<<20)
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

func TestAllFrameworksDrainOneBucket(t *testing.T) {
	d := serve(t)
	status, _ := call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"capacity": len(frameworks), "rate": 1, "interval_ms": 3600e3}))
	require.Equal(t, http.StatusOK, status)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		for _, f := range frameworks {
			got, body := call(t, d, http.MethodGet, "/"+f.name+"/limited", nil)
			require.Equal(t, want, got, "%s: %s", f.name, body)
		}
	}
	status, _ = call(t, d, http.MethodPost, "/api/reset", nil)
	require.Equal(t, http.StatusNoContent, status)
	for _, f := range frameworks {
		got, _ := call(t, d, http.MethodGet, "/"+f.name+"/limited", nil)
		require.Equal(t, http.StatusOK, got, "%s after a reset", f.name)
	}
}

func TestBadSettingsChangeNothing(t *testing.T) {
	d := serve(t)
	status, body := call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"capacity": 0, "rate": 7}))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, body, `"capacity":`)
	require.Equal(t, defaults, d.scene.Load().settings)
}

func TestPagesAreToldTheSame(t *testing.T) {
	d := serve(t)
	one, other := listen(t, d), listen(t, d)
	for _, events := range []<-chan event{one, other} {
		next(t, events, "hello")
	}
	call(t, d, http.MethodGet, "/chi/limited", nil)
	told := next(t, one, "requests")
	require.Contains(t, told, `"framework":"chi"`)
	require.Contains(t, told, `["X-Ratelimit-Limit","10"]`)
	require.Equal(t, told, next(t, other, "requests"))

	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"capacity": 3}))
	told = next(t, one, "settings")
	require.Contains(t, told, `"capacity":3`)
	require.Equal(t, told, next(t, other, "settings"))
}

func TestBucketsOfAnotherKindOfKeyAreForgotten(t *testing.T) {
	d := serve(t)
	call(t, d, http.MethodGet, "/gin/limited", nil)
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"key": "user"}))
	var seen []string
	for _, s := range d.states().List {
		seen = append(seen, s.User)
	}
	require.Equal(t, users, seen)
}

// played is the verdict on a scenario. One that found too much else going on is played again.
func played(t *testing.T, d *demo, id string) (v verdict) {
	t.Helper()
	for range 10 {
		if v = playedOnce(t, d, id); v.Outcome != none {
			break
		}
		t.Log(v.Text)
	}
	return v
}

func playedOnce(t *testing.T, d *demo, id string) verdict {
	t.Helper()
	status, body := call(t, d, http.MethodPost, "/api/scenarios/"+id, nil)
	require.Equal(t, http.StatusAccepted, status, body)
	d.script.rehearsals.Wait()
	_, verdicts, _ := d.script.info()
	return verdicts[id]
}

func TestScenariosEndAsExpected(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.id, func(t *testing.T) {
			t.Parallel()
			if sc.needsServer {
				t.Skip("needs a redis-server: run it from the page")
			}
			d := serve(t)
			began := time.Now()
			v := played(t, d, sc.id)
			require.Equal(t, expected, v.Outcome, v.Text)
			require.GreaterOrEqual(t, time.Since(began), 4*time.Second, "slow enough to follow")
			require.Equal(t, defaults, d.scene.Load().settings, "the settings come back")
		})
	}
}

// staged has a scenario run that ends when the test says so.
func staged(t *testing.T, d *demo) (end func()) {
	t.Helper()
	on, over, done := make(chan bool), make(chan bool), make(chan bool)
	require.NoError(t, d.script.begin("users", "", func() {}))
	go func() {
		defer close(done)
		d.rehearse(t.Context(), scenario{id: "users", run: func(_ context.Context, r *rehearsal) (verdict, error) {
			err := r.set(continuous(5, 1))
			close(on)
			<-over
			return r.judge(r.ask(t.Context(), "ann").passed(), "staged"), err
		}})
	}()
	<-on
	return func() { close(over); <-done }
}

func TestNothingIsChangedUnderAScenario(t *testing.T) {
	d := serve(t)
	end := staged(t, d)
	for range 20 {
		status, text := call(t, d, http.MethodGet, "/gin/limited", nil)
		require.Equal(t, http.StatusConflict, status, "a visitor's request")
		require.Contains(t, text, "a scenario is running")
	}
	for path, body := range map[string][]byte{"/api/settings": changed(t, map[string]any{"capacity": 3}), "/api/reset": nil, "/api/scenarios/burst": nil} {
		status, text := call(t, d, http.MethodPost, path, body)
		require.Equal(t, http.StatusConflict, status, path)
		require.Contains(t, text, "a scenario is running", path)
	}
	_, text := call(t, d, http.MethodGet, "/api/hello", nil)
	var g greeting
	require.NoError(t, json.Unmarshal([]byte(text), &g))
	require.Equal(t, defaults, g.Own, "what comes back")
	require.EqualValues(t, 5, g.Settings.Capacity, "what is in force")
	end()
	_, verdicts, running := d.script.info()
	require.Empty(t, running)
	require.Equal(t, expected, verdicts["users"].Outcome, verdicts["users"].Text)
	require.Equal(t, defaults, d.scene.Load().settings)
	status, _ := call(t, d, http.MethodGet, "/gin/limited", nil)
	require.Equal(t, http.StatusOK, status)
}

// A settings change that was answered 200 must be there when the scenario that began meanwhile is over.
func TestAChangeIsNotLostToAScenarioThatBegins(t *testing.T) {
	d := serve(t)
	for n := range 30 {
		accepted, body := make(chan bool), bytes.NewReader(changed(t, map[string]any{"capacity": 100 + n}))
		go func() {
			resp, err := http.Post(d.url+"/api/settings", "application/json", body)
			if err == nil {
				_ = resp.Body.Close()
			}
			accepted <- err == nil && resp.StatusCode == http.StatusOK
		}()
		for d.script.begin("burst", "", func() {}) != nil {
		}
		d.rehearse(t.Context(), scenario{id: "burst", run: func(_ context.Context, r *rehearsal) (verdict, error) {
			return verdict{Outcome: expected}, r.set(continuous(5, 1))
		}})
		if <-accepted {
			require.EqualValues(t, 100+n, d.scene.Load().settings.Capacity)
		}
	}
}

func TestStoppingIsNoFailure(t *testing.T) {
	d := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, d.script.begin("flood", "", cancel))
	done := make(chan bool)
	go func() {
		defer close(done)
		d.rehearse(ctx, scenario{id: "flood", run: func(ctx context.Context, r *rehearsal) (verdict, error) {
			<-ctx.Done()
			return r.judge(false, "half of a flood"), nil
		}})
	}()
	status, _ := call(t, d, http.MethodDelete, "/api/scenarios", nil)
	require.Equal(t, http.StatusNoContent, status)
	<-done
	_, verdicts, _ := d.script.info()
	require.Equal(t, none, verdicts["flood"].Outcome)
	require.Contains(t, verdicts["flood"].Text, "Stopped")
}

// away is a store that does not answer in time, so that this process decides alone.
type away struct{ core.Store }

func (away) Do(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, errors.New("dial tcp 10.1.2.3:6379: too slow")
}

func TestAStoreThatIsTooSlowGetsNoVerdict(t *testing.T) {
	t.Parallel() // it mostly waits
	b := inProcess()
	b.store, b.patient = away{b.store}, away{b.store}
	d := serveOn(t, b)
	for _, id := range []string{"burst", "users"}[:soak.Budget(1, 2)] {
		v := playedOnce(t, d, id)
		require.Equal(t, none, v.Outcome, v.Text)
		require.NotContains(t, v.Text, "tcp")
	}
	// And the page is told, whatever the answer to the request is.
	require.True(t, d.states().Store.Alone)
	for _, f := range frameworks {
		for range 12 {
			call(t, d, http.MethodGet, "/"+f.name+"/limited", nil)
		}
	}
	d.tellRequests()
	list, _ := d.history.latest()
	denied := 0
	for _, r := range list {
		require.Equal(t, "fallback", r.Source, "%s answered %d", r.Framework, r.Status)
		if r.denied() {
			denied++
		}
	}
	require.Positive(t, denied)
}

func TestEveryBucketIsFullAfterFilling(t *testing.T) {
	d := serve(t)
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"key": "user", "interval_ms": 3600e3}))
	for range 12 {
		call(t, d, http.MethodGet, "/http/limited", nil)
	}
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"key": "client", "interval_ms": 3600e3}))
	status, _ := call(t, d, http.MethodPost, "/api/reset", nil)
	require.Equal(t, http.StatusNoContent, status)
	call(t, d, http.MethodPost, "/api/settings", changed(t, map[string]any{"key": "user", "interval_ms": 3600e3}))
	status, _ = call(t, d, http.MethodGet, "/http/limited", nil)
	require.Equal(t, http.StatusOK, status, "a bucket that was emptied under another kind of key")
}

func TestOnlyGETIsServed(t *testing.T) {
	d := serve(t)
	for _, f := range frameworks {
		for _, method := range []string{http.MethodHead, http.MethodPost} {
			status, _ := call(t, d, method, "/"+f.name+"/limited", nil)
			require.Equal(t, http.StatusMethodNotAllowed, status, "%s %s", method, f.name)
		}
	}
}

func TestTheAddressThatIsPrintedCanBeOpened(t *testing.T) {
	require.Equal(t, "localhost:8080", reachable(&net.TCPAddr{IP: net.IPv6zero, Port: 8080}))
	require.Equal(t, "localhost:8080", reachable(&net.TCPAddr{IP: net.IPv4zero, Port: 8080}))
	require.Equal(t, "192.0.2.7:8080", reachable(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8080}))
}

func TestAnEmptyHostDoesWithoutRedis(t *testing.T) {
	b, err := chooseBackend(t.Context(), "", 6379, true)
	require.NoError(t, err)
	require.Equal(t, "memory", b.kind)
}

func TestMistakesOfTheCommandLineAreOneLine(t *testing.T) {
	taken := httptest.NewServer(nil)
	defer taken.Close()
	addr := taken.Listener.Addr().String()
	for want, args := range map[string][]string{
		"is taken":            {"-addr", addr},
		"no Redis at":         {"-redis-host", "127.0.0.1", "-redis-port", "1"},
		"must be 1 to 65535":  {"-redis-port", "65536"},
		"unexpected argument": {"8081"},
		"a host and a port":   {"-addr", "8081"},
		"-h lists the flags":  {"-bogus"},
		"invalid value":       {"-redis-port", "abc"},
	} {
		err := run(args)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
}
