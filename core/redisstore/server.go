package redisstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
)

// server is what a store knows of its client: one server, or several that share the keys.
type server struct {
	client    redis.UniversalClient
	sharded   atomic.Bool                      // keys may be on different servers, so a script call has one key
	noStruct  atomic.Bool                      // a server's Lua lacks the struct library: see script
	inline    bool                             // the client's commands end with their contexts, so a caller may send its call itself
	clock     func() time.Time                 // nil: the server's clock counts
	timeout   time.Duration                    // see WithTimeout
	contexts  [2]atomic.Pointer[sharedContext] // the latest without and with a watchdog: see contextFor
	logger    func() *slog.Logger
	address   string                 // of the client's servers, for messages
	master    atomic.Pointer[string] // the same, if the client asks Sentinel: see findMaster
	finding   sync.Mutex             // held by findMaster
	dialError atomic.Pointer[error]  // why a connection could not be made; nil once one is made
}

// setClient sets the client and what follows from it.
func (s *server) setClient(client redis.UniversalClient) {
	script.Ordinary() // assembles the script, so that the first decision need not
	s.client = client
	s.inline = endsWithContext(client)
	s.address = address.Of(client)
	_, one := client.(*redis.Client)
	s.sharded.Store(!one)
}

// endsWithContext reports whether commands of client end with their contexts. By default they end with the client's ReadTimeout.
func endsWithContext(client redis.UniversalClient) bool {
	switch client := client.(type) {
	case *redis.Client:
		return client.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return client.Options().ContextTimeoutEnabled
	case *redis.Ring:
		return client.Options().ContextTimeoutEnabled
	}
	return false
}

// longestWait, times the store's timeout, bounds waits that are no failure of Redis: of a call in the queue while Redis answers
// others, and of an answer for its reader in a process that does not keep up with its goroutines.
const longestWait = 10

// script returns the script for these servers. If one lacks the struct library, it is a script that brings its own.
func (s *server) script() *script.Script {
	if s.noStruct.Load() {
		return script.WithStruct()
	}
	return script.Ordinary()
}

// Each calls do with a client of each server that has keys: each master of a Cluster, concurrently, or each shard of a Ring that is
// up. If the client has one server, it calls do with the client, and several is false. It returns one of the errors. A panic in a
// hook of the client is an error.
func (s *server) Each(ctx context.Context, do func(ctx context.Context, one redis.UniversalClient, several bool) error) (err error) {
	defer recovered(&err)
	oneOfSeveral := func(ctx context.Context, one *redis.Client) (err error) {
		defer recovered(&err) // Each's own does not work in a goroutine of go-redis
		return do(ctx, one, true)
	}
	switch c := s.client.(type) {
	case interface {
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	}:
		return c.ForEachMaster(ctx, oneOfSeveral)
	case interface {
		ForEachShard(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	}:
		return c.ForEachShard(ctx, oneOfSeveral)
	}
	return do(ctx, s.client, false)
}

// sharedContext is a context for all commands that are sent before until. A context of its own would cost each of them five
// allocations.
type sharedContext struct {
	context.Context
	until time.Time
}

// contextSlack: a shared context ends up to a 64th of the store's timeout later than a command's own would.
const contextSlack = 64

// contextFor returns a context for a command that is sent now. Without a watchdog it ends after the store's timeout, plus up to a
// 64th. With a watchdog, which enforces the timeout, it ends after ten times that. Example: with a timeout of 100 ms, all commands
// sent from 0 to 1.5 ms share a context that ends at 101.5 ms.
func (s *server) contextFor(watchdog bool, now time.Time) context.Context {
	latest, timeout := &s.contexts[0], s.timeout
	if watchdog {
		latest, timeout = &s.contexts[1], longestWait*s.timeout
	}
	shared := latest.Load()
	if shared == nil || !now.Before(shared.until) {
		until := now.Add(s.timeout / contextSlack)
		ctx, cancel := context.WithDeadline(context.Background(), until.Add(timeout))
		context.AfterFunc(ctx, cancel)
		shared = &sharedContext{ctx, until}
		latest.Store(shared)
	}
	return shared
}

// Log returns the logger for warnings.
func (s *server) Log() *slog.Logger { return s.logger() }

// sendPing sends PING by client.
func sendPing(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
}

// sentOnce is a command that go-redis does not retry. A retry after a timeout could charge a request twice.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }

// rediscover has the client of a Cluster ask, in the background, which server has which hash slot, if err is not a server's reply. By
// itself the client asks only when a server redirects it, and a server that is down redirects nothing.
func (s *server) rediscover(ctx context.Context, err error) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	if ok && !fromServer(err) {
		cluster.ReloadState(ctx)
	}
}
