package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
)

// server is the Redis that a store asks: one server, or several that share the keys.
type server struct {
	client    redis.UniversalClient
	scattered atomic.Bool      // keys may be on different servers: a script call can't take several
	standIn   atomic.Bool      // a server's Lua lacks the struct library
	inline    bool             // the client's commands end with their contexts, so callers may wait for them
	clock     func() time.Time // nil: the server's
	timeout   time.Duration
	contexts  [2]atomic.Pointer[sharedContext] // of calls, and of guarded ones
	logger    func() *slog.Logger
	address   string                // of the client's servers, for messages
	dialed    atomic.Pointer[error] // why the last connection could not be made, if that is known, until there is one
}

// use sets the client.
func (s *server) use(client redis.UniversalClient) {
	s.client = client
	s.inline = endsWithContext(client)
	s.address = address.Of(client)
	_, one := client.(*redis.Client)
	s.scattered.Store(!one)
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

// longest is how long something may take that is no failure of Redis, as a multiple of the store's timeout: a decision's wait
// for others, and that of an answer for a process that does not keep up.
const longestWait = 10

// script is the script that the servers understand.
func (s *server) script() *script.Script {
	if s.standIn.Load() {
		return script.WithStruct
	}
	return script.Ordinary
}

// Each calls do with the client's server, or where keys live on several, each of them: the masters of a Cluster, the
// shards of a Ring. It returns the error of one. A hook of the client that panics is an error.
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

// sharedContext is a context for calls that begin before `until`.
type sharedContext struct {
	context.Context
	until time.Time
}

// shares is how much later than it must a context may end, as a part of the store's timeout, because calls share it. A
// context of its own costs a call five allocations.
const shares = 64

// within returns a context for a call that begins now. It ends after the store's timeout or a little later, or if the call is
// guarded after ten times as long: somebody else looks after the timeout then.
func (s *server) within(guarded bool, now time.Time) context.Context {
	latest, timeout := &s.contexts[0], s.timeout
	if guarded {
		latest, timeout = &s.contexts[1], longestWait*s.timeout
	}
	shared := latest.Load()
	if shared == nil || !now.Before(shared.until) {
		until := now.Add(s.timeout / shares)
		ctx, cancel := context.WithDeadline(context.Background(), until.Add(timeout))
		context.AfterFunc(ctx, cancel)
		shared = &sharedContext{ctx, until}
		latest.Store(shared)
	}
	return shared
}

// connectPatience is how long a connection may take to be set up, or ten times the store's timeout if that is longer:
// with TLS it takes seven round trips.
const connectTimeouts = time.Second

// Patience is how long a connection may take to be set up.
func (s *server) ConnectTimeout() time.Duration { return connectTime(s.timeout) }

// connectTime is the Patience of a store with this timeout.
func connectTime(timeout time.Duration) time.Duration {
	return max(connectTimeouts, longestWait*timeout)
}

// Log is where warnings go.
func (s *server) Log() *slog.Logger { return s.logger() }

// spare reports whether the client has a connection that nobody uses. Where there are several servers it can't say.
func (s *server) spare() bool {
	return !s.scattered.Load() && s.client.PoolStats().IdleConns > 0
}

// connect waits until the client has a connection ready to one server, or to any if that is nil, and returns the error if
// that fails. No decision waits for it: its caller leaves when the store's timeout ends, and a later one finds the connection.
// Of several servers it waits for all no longer than the timeout, and then for one: servers that are away must not keep the
// others' keys waiting.
func (s *server) connect(only *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.ConnectTimeout())
	anyReady, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		err := s.reach(ctx, only, anyReady)
		if why := err; lost(err) && !errors.Is(err, context.DeadlineExceeded) {
			if !s.scattered.Load() { // of one of several servers it says nothing of others
				s.dialed.Store(&why)
			}
			err = &breaker.Unconnected{Address: s.at(only), Cause: err}
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

// reach waits until the client has a connection ready to one server, or to all if that is nil. It says when the first is.
func (s *server) reach(ctx context.Context, only *redis.Client, anyReady chan<- struct{}) error {
	if only != nil {
		return s.ping(ctx, only)
	}
	return s.Each(ctx, func(ctx context.Context, one redis.UniversalClient, several bool) error {
		var err error
		if several {
			err = s.ping(ctx, one, s.client)
		} else {
			err = pong(ctx, one)
		}
		if !lost(err) {
			s.dialed.Store(nil)
			select {
			case anyReady <- struct{}{}:
			default: // another said so already
			}
		}
		return err
	})
}

// at is the address of one server, or of the client's servers if that is nil.
func (s *server) at(only *redis.Client) string {
	if only != nil {
		return address.Of(only)
	}
	return s.address
}

// noConnection is the error of a call that waited so long for a connection to one server, or to any if that is nil.
func (s *server) noConnection(only *redis.Client, after time.Duration) error {
	e := &breaker.Unconnected{Address: s.at(only), After: after}
	if last := s.dialed.Load(); last != nil {
		e.Cause = *last
	}
	return e
}

// late is the error of a call that was sent and took too long. It may have waited for a connection.
func (s *server) late() error {
	if s.dialed.Load() != nil {
		return s.noConnection(nil, s.timeout)
	}
	return timeoutError(s.timeout)
}

// ping makes sure that one of several servers has a connection for a command, and one for a pipeline, which go-redis takes
// from another pool. It has another client learn what that needs to know of the servers.
func (s *server) ping(ctx context.Context, one redis.UniversalClient, others ...redis.UniversalClient) error {
	pings := []func() error{
		func() error { return pong(ctx, one) },
		func() error {
			_, err := one.Pipelined(ctx, func(p redis.Pipeliner) error {
				return p.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
			})
			return err
		},
	}
	for _, other := range others {
		pings = append(pings, func() error { return pong(ctx, other) })
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

// pong sends a command that does nothing.
func pong(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
}

// sentOnce is a command that go-redis must not send twice. Its own retries, of timeouts above all, would charge a request
// as often as they reach the server.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }
