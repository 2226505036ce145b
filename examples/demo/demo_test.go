package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// serve starts a demo without Redis.
func serve(t *testing.T) *demo {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	d, err := newDemo(&backend{kind: "memory", text: "test", store: core.NewMemoryStore()}, "http://"+server.Listener.Addr().String())
	require.NoError(t, err)
	server.Config.Handler = d
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // event streams would not end by themselves
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
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
	for _, s := range d.states() {
		seen = append(seen, s.User)
	}
	require.Equal(t, users, seen)
}

func TestScenariosEndAsExpected(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.id, func(t *testing.T) {
			t.Parallel()
			if sc.needsServer {
				t.Skip("needs a redis-server: run it from the page")
			}
			d := serve(t)
			events := listen(t, d)
			status, body := call(t, d, http.MethodPost, "/api/scenarios/"+sc.id, nil)
			require.Equal(t, http.StatusAccepted, status, body)
			status, body = call(t, d, http.MethodPost, "/api/scenarios/"+sc.id, nil)
			require.Equal(t, http.StatusConflict, status, "a second one: %s", body)
			var s struct {
				Running bool
				Verdict verdict
			}
			s.Running = true
			for s.Running {
				require.NoError(t, json.Unmarshal([]byte(next(t, events, "scenario")), &s))
			}
			require.True(t, s.Verdict.OK, s.Verdict.Text)
			require.Equal(t, defaults, d.scene.Load().settings, "the settings come back")
		})
	}
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
	} {
		err := run(args)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n")
	}
}
