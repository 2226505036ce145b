package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/cause"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
)

// server is what a store knows of its client: one server, or several that share the keys.
type server struct {
	client    redis.UniversalClient
	sharded   atomic.Bool      // keys may be on different servers, so one script call can't take several keys
	noStruct  atomic.Bool      // a server's Lua lacks the struct library: the script brings its own
	inline    bool             // the client's commands end with their contexts, so callers may send them
	clock     func() time.Time // nil: the server's clock counts
	timeout   time.Duration
	contexts  [2]atomic.Pointer[sharedContext] // for inline calls, and for calls with a watchdog
	logger    func() *slog.Logger
	address   string                // of the client's servers, for messages
	dialError atomic.Pointer[error] // why the last connection failed, if known; nil once one is made
}

// setClient sets the client.
func (s *server) setClient(client redis.UniversalClient) {
	script.Ordinary() // now, because the first decision has a timeout
	s.client = client
	s.inline = endsWithContext(client)
	s.address = address.Of(client)
	_, one := client.(*redis.Client)
	s.sharded.Store(!one)
}

// endsWithContext reports whether commands of client end with their contexts. By default go-redis reads on.
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
// others, and of an answer for a process that is behind with its goroutines.
const longestWait = 10

// script returns the script that the servers can run.
func (s *server) script() *script.Script {
	if s.noStruct.Load() {
		return script.WithStruct()
	}
	return script.Ordinary()
}

// Each calls do with each server that has keys: the client's one, the masters of a Cluster, or the shards of a Ring. It returns
// one of the errors. A panic in a hook of the client is an error.
func (s *server) Each(ctx context.Context, do func(ctx context.Context, one redis.UniversalClient, several bool) error) (err error) {
	defer recovered(&err)
	oneOfSeveral := func(ctx context.Context, one *redis.Client) (err error) {
		defer recovered(&err) // in a goroutine of go-redis
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

// sharedContext is a context for calls that begin before until.
type sharedContext struct {
	context.Context
	until time.Time
}

// contextSlack: a shared context may end later than a call's timeout, by one part in so many of the timeout. Sharing saves each
// call the five allocations of a context.
const contextSlack = 64

// contextFor returns a context for a call that begins now. Without a watchdog it ends after the store's timeout, or a 64th of
// that later. With a watchdog, which enforces the timeout, it ends after ten times as long.
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

// minConnectTimeout is the least time that opening a connection may take. With TLS it takes seven round trips.
const minConnectTimeout = time.Second

// ConnectTimeout returns how long opening a connection may take: a second, or ten times the store's timeout if that is longer.
func (s *server) ConnectTimeout() time.Duration { return connectTimeout(s.timeout) }

// connectTimeout returns the ConnectTimeout of a store with this timeout.
func connectTimeout(timeout time.Duration) time.Duration {
	return max(minConnectTimeout, longestWait*timeout)
}

// Log returns the logger for warnings.
func (s *server) Log() *slog.Logger { return s.logger() }

// hasIdle reports whether the client has an idle connection. Of several servers' connections it reports none, because it can't
// tell whose they are.
func (s *server) hasIdle() bool {
	return !s.sharded.Load() && s.client.PoolStats().IdleConns > 0
}

// connect waits until the client has a connection ready to the server only, or to all servers if only is nil.
//
// It may take longer than any decision waits: those fail after the store's timeout, and later ones find the connection. Of
// several servers it waits for all until the store's timeout, and after that for any, so that servers that are down don't delay
// the keys of others.
func (s *server) connect(only *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.ConnectTimeout())
	anyReady, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		err := s.reach(ctx, only, anyReady)
		if why := err; lost(err) && !errors.Is(err, context.DeadlineExceeded) {
			if !s.sharded.Load() { // the error of one of several servers does not concern the others
				s.dialError.Store(&why)
			}
			err = &cause.Unconnected{Address: s.addressOf(only), Cause: err}
		}
		all <- err
	}()
	for _, wait := range []struct {
		time   time.Duration
		enough <-chan struct{}
	}{{s.timeout, nil}, {s.ConnectTimeout() - s.timeout, anyReady}} {
		timer := time.NewTimer(wait.time)
		select {
		case err := <-all:
			timer.Stop()
			return err
		case <-wait.enough:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return s.noConnection(only, s.ConnectTimeout())
}

// reach waits until the client has a connection ready to the server only, or to all if only is nil. Then it sends to anyReady
// when the first is ready.
func (s *server) reach(ctx context.Context, only *redis.Client, anyReady chan<- struct{}) error {
	if only != nil {
		return s.ping(ctx, only)
	}
	return s.Each(ctx, func(ctx context.Context, one redis.UniversalClient, several bool) error {
		var err error
		if several {
			err = s.ping(ctx, one, s.client)
		} else {
			err = sendPing(ctx, one)
		}
		if !lost(err) {
			s.dialError.Store(nil)
			select {
			case anyReady <- struct{}{}:
			default: // another server was ready first
			}
		}
		return err
	})
}

// addressOf returns the address of the server only, or of all the client's servers if only is nil.
func (s *server) addressOf(only *redis.Client) string {
	if only != nil {
		return address.Of(only)
	}
	return s.address
}

// noConnection is the error of a call that waited so long for a connection to the server only, or to any if only is nil.
func (s *server) noConnection(only *redis.Client, after time.Duration) error {
	e := &cause.Unconnected{Address: s.addressOf(only), After: after}
	if last := s.dialError.Load(); last != nil {
		e.Cause = *last
	}
	return e
}

// timedOut is the error of a call that was sent and took too long. It may have waited for a connection.
func (s *server) timedOut() error {
	if s.dialError.Load() != nil {
		return s.noConnection(nil, s.timeout)
	}
	return timeoutError(s.timeout)
}

// ping opens two connections to one of several servers: go-redis sends commands and pipelines from different pools. It pings by
// the others too, such as the store's client, which thereby learns where its servers are.
func (s *server) ping(ctx context.Context, one redis.UniversalClient, others ...redis.UniversalClient) error {
	pings := []func() error{
		func() error { return sendPing(ctx, one) },
		func() error {
			_, err := one.Pipelined(ctx, func(p redis.Pipeliner) error {
				return p.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
			})
			return err
		},
	}
	for _, other := range others {
		pings = append(pings, func() error { return sendPing(ctx, other) })
	}
	errs := make(chan error)
	for _, ping := range pings {
		go func() {
			var err error
			defer func() { errs <- err }()
			defer recovered(&err)
			err = ping()
		}()
	}
	var err error
	for range pings {
		err = errors.Join(err, <-errs)
	}
	return err
}

// sendPing sends a command that does nothing.
func sendPing(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
}

// sentOnce is a command that go-redis must not retry. A retry after a timeout would charge the request again.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }
