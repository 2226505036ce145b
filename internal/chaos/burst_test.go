package chaos_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// nearBench is a limiter on a healthy server, that no fallback stands in for.
func nearBench(t *testing.T, options *redis.Options) (*core.Limiter, *redisstore.Store, *watcher) {
	t.Helper()
	options.Addr = redistest.Start(t).Addr
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()))
	var causes sync.Map
	l := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerSecond(1_000_000)}, OnFailure: core.FailClosed,
	}, core.WithObserver(func(_ context.Context, o core.Observation) {
		if o.Err != nil {
			causes.LoadOrStore(o.Err.Error(), true)
		}
	})))
	t.Cleanup(func() {
		causes.Range(func(cause, _ any) bool {
			t.Log(cause)
			return true
		})
	})
	require.Eventually(t, func() bool {
		_, err := l.Allow(t.Context(), "first")
		return err == nil
	}, wait, tick, "premise: the store answers")
	return l, store, watchOther(t, options.Addr)
}

// inTime makes bursts until one ends in the time that decisions may wait for
// others, while the server answered another process. None of these may fail a
// decision. On a machine that is slower whatever it does, none proves anything.
func inTime(t *testing.T, w *watcher, burst func() (failed int64, took time.Duration)) {
	t.Helper()
	for range 20 {
		w.slowest(t)
		failed, took := burst()
		silent := w.slowest(t)
		t.Logf("%d failed, in %v; the server took up to %v for another process", failed, took, silent)
		if took < 10*timeout && silent < timeout/2 {
			assert.Zero(t, failed, "while Redis answers, the time that decisions wait in this process must fail none")
			return
		}
	}
	t.Skip("this machine is too busy")
}

func TestBurstOfDecisionsFailsNone(t *testing.T) {
	for name, options := range map[string]*redis.Options{"defaults": {}, "ContextTimeoutEnabled": {ContextTimeoutEnabled: true}} {
		t.Run(name, func(t *testing.T) {
			l, store, w := nearBench(t, options)
			names := keyNames(10_000)
			for range 3 {
				inTime(t, w, func() (int64, time.Duration) {
					d := asked(l, names, 1)
					return d.fallback, d.took
				})
			}
			assert.Zero(t, store.Stats().Opened, "no breaker may open")
		})
	}
}

// Here clients, connections and handlers share the processors with the store.
func TestBurstOfRequestsFailsNone(t *testing.T) {
	for name, options := range map[string]*redis.Options{"defaults": {}, "ContextTimeoutEnabled": {ContextTimeoutEnabled: true}} {
		t.Run(name, func(t *testing.T) {
			l, store, w := nearBench(t, options)
			server := httptest.NewServer(httplimit.New(l, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			defer server.Close()
			users := keyNames(4000)
			transport := &http.Transport{MaxIdleConnsPerHost: len(users)}
			defer transport.CloseIdleConnections()
			for range soak.Budget(1, 3) {
				inTime(t, w, func() (int64, time.Duration) { return requested(t, transport, server.URL, users) })
			}
			assert.Zero(t, store.Stats().Opened, "no breaker may open")
		})
	}
}

// requested makes a request of each user at once. It returns how many were
// refused.
func requested(t *testing.T, transport *http.Transport, url string, users []string) (refused int64, took time.Duration) {
	t.Helper()
	var status [600]atomic.Int64
	start := make(chan struct{})
	var all sync.WaitGroup
	for _, user := range users {
		all.Go(func() {
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			r.Header.Set("X-User", user)
			<-start
			if answer, err := transport.RoundTrip(r); err == nil {
				_ = answer.Body.Close()
				status[answer.StatusCode].Add(1)
			}
		})
	}
	began := time.Now()
	close(start)
	all.Wait()
	took = time.Since(began)
	require.EqualValues(t, len(users), status[http.StatusOK].Load()+status[http.StatusServiceUnavailable].Load(), "premise: clients can connect")
	return status[http.StatusServiceUnavailable].Load(), took
}
