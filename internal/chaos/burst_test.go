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
)

// nearBench is a limiter on a healthy server, with the default timeout, that no fallback stands in for.
func nearBench(t *testing.T, options *redis.Options) (*core.Limiter, *redisstore.Store) {
	t.Helper()
	options.Addr = redistest.Start(t).Addr
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()))
	l := core.Must(core.NewLimiter(store, core.Policy{
		Name: "api", Limits: []core.Limit{core.PerSecond(1_000_000)}, OnFailure: core.FailClosed,
	}, core.WithObserver(func(_ context.Context, o core.Observation) {
		if o.Err != nil {
			println("DEBUG", time.Now().UnixMilli(), o.Err.Error())
		}
	})))
	require.Eventually(t, func() bool {
		_, err := l.Allow(t.Context(), "first")
		return err == nil
	}, wait, tick, "premise: the store answers")
	return l, store
}

// While Redis answers, the time that decisions wait in this process is no failure of Redis, however many come at once.
func TestBurstOfDecisionsFailsNone(t *testing.T) {
	for name, options := range map[string]*redis.Options{"defaults": {}, "ContextTimeoutEnabled": {ContextTimeoutEnabled: true}} {
		t.Run(name, func(t *testing.T) {
			l, store := nearBench(t, options)
			names := keyNames(8000)
			for range 5 {
				d := asked(l, names, 1)
				assert.Zero(t, d.fallback, "of %d decisions at once none may fail: they took %v", d.decisions, d.took)
			}
			assert.Zero(t, store.Stats().Opened, "no breaker may open")
		})
	}
}

// The same with clients, connections and handlers that share the processors with the store.
func TestBurstOfRequestsFailsNone(t *testing.T) {
	for name, options := range map[string]*redis.Options{"defaults": {}, "ContextTimeoutEnabled": {ContextTimeoutEnabled: true}} {
		t.Run(name, func(t *testing.T) {
			l, store := nearBench(t, options)
			const clients = 4000
			server := httptest.NewServer(httplimit.New(l, httplimit.ByHeader("X-User"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
			defer server.Close()
			transport := &http.Transport{MaxIdleConnsPerHost: clients}
			defer transport.CloseIdleConnections()
			users := keyNames(clients)
			for range 3 {
				var refused, failed atomic.Int64
				start := make(chan struct{})
				var all sync.WaitGroup
				for _, user := range users {
					all.Go(func() {
						r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
						r.Header.Set("X-User", user)
						<-start
						answer, err := transport.RoundTrip(r)
						if err != nil {
							failed.Add(1)
							return
						}
						_ = answer.Body.Close()
						if answer.StatusCode != http.StatusOK {
							refused.Add(1)
						}
					})
				}
				close(start)
				all.Wait()
				assert.Zero(t, refused.Load(), "of %d requests at once none may be refused", clients)
				t.Log(failed.Load(), "found no connection")
				require.Less(t, failed.Load(), int64(clients/2), "premise: clients can connect")
			}
			assert.Zero(t, store.Stats().Opened, "no breaker may open")
		})
	}
}
