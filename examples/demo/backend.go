package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// backend is where the buckets live.
type backend struct {
	kind  string // redis or memory
	text  string
	store core.Store // changed between scenarios only
	// patient is the same place for scenarios. A verdict needs Redis to decide, so it waits longer for an
	// answer before this process decides alone.
	patient core.Store
	// refill makes every bucket full, also those that nobody remembers, and returns the store to go on with.
	refill func(context.Context) (core.Store, error)
	close  func()
}

// inProcess keeps the buckets in this process.
func inProcess() *backend {
	store := core.NewMemoryStore()
	return &backend{
		kind: "memory", text: "buckets in this process", store: store, patient: store,
		refill: func(context.Context) (core.Store, error) { return core.NewMemoryStore(), nil },
		close:  func() {},
	}
}

// onRedis keeps them in the Redis that client leads to.
func onRedis(addr string, client *redis.Client) *backend {
	return &backend{
		kind: "redis", text: "buckets in Redis at " + addr,
		store: redisstore.New(client), patient: redisstore.New(client, redisstore.WithTimeout(time.Second)),
		refill: func(ctx context.Context) (core.Store, error) {
			if err := forget(ctx, client); err != nil {
				return nil, err
			}
			return redisstore.New(client), nil // which remembers no denials
		},
		close: func() { _ = client.Close() },
	}
}

// forget deletes all buckets of the demo's policy. It tries again until ctx ends: a Redis that is busy may need a while.
func forget(ctx context.Context, client *redis.Client) error {
	for {
		err := deleteAll(ctx, client, "ratelimit:"+policyName+":*")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

func deleteAll(ctx context.Context, client *redis.Client, pattern string) error {
	list := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for list.Next(ctx) {
		if err := client.Del(ctx, list.Val()).Err(); err != nil {
			return err
		}
	}
	return list.Err()
}

// chooseBackend takes the Redis that was asked for, or the one that answers at the usual place, or none.
func chooseBackend(ctx context.Context, host string, port int, asked bool) (*backend, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("-redis-port %d: must be 1 to 65535", port)
	}
	if host == "" {
		return inProcess(), nil
	}
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	client := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: time.Second, MaxRetries: -1, DialerRetries: 1})
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err := client.Ping(ctx).Err()
	if err == nil {
		return onRedis(addr, client), nil
	}
	_ = client.Close()
	switch {
	case !asked:
		return inProcess(), nil
	case strings.HasPrefix(err.Error(), "NOAUTH"), strings.HasPrefix(err.Error(), "WRONGPASS"):
		return nil, fmt.Errorf("the Redis at %s wants a password, which the demo has none of: start one without, or leave out -redis-host and -redis-port to do without Redis", addr)
	}
	return nil, fmt.Errorf("no Redis at %s (%w): start one, or leave out -redis-host and -redis-port to do without", addr, err)
}

// decision is what the limiter's observer leaves with a request: the body tells who decided only when it passed.
type decision struct {
	source string
}

type decisionKey struct{}

// note is the observer.
func note(ctx context.Context, o core.Observation) {
	if d, ok := ctx.Value(decisionKey{}).(*decision); ok {
		d.source = o.Source.String()
	}
}

// contexts carry the contexts of requests past an adaptor that copies nothing of a request but its text.
type contexts struct{ byID sync.Map }

const contextHeader = "X-Demo-Context"

// through serves r by next, where of finds r's context again.
func (c *contexts) through(w http.ResponseWriter, r *http.Request, next http.Handler) {
	id := random()
	c.byID.Store(id, r.Context())
	defer c.byID.Delete(id)
	r.Header.Set(contextHeader, id)
	next.ServeHTTP(w, r)
}

func (c *contexts) of(id string) context.Context {
	kept, _ := c.byID.Load(id)
	if ctx, ok := kept.(context.Context); ok {
		return ctx
	}
	return context.Background()
}
