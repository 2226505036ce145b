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
	sharded   atomic.Bool                      // keys may be on different servers, so a script call has one key
	noStruct  atomic.Bool                      // a server's Lua lacks the struct library: see script
	inline    bool                             // the client's commands end with their contexts, so a caller may send its call itself
	clock     func() time.Time                 // nil: the server's clock counts
	timeout   time.Duration                    // see WithTimeout
	contexts  [2]atomic.Pointer[sharedContext] // the latest without and with a watchdog: see contextFor
	logger    func() *slog.Logger
	address   string                // of the client's servers, for messages
	dialError atomic.Pointer[error] // why a connection could not be made; nil once one is made
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

// hasIdle reports whether the client has an idle connection. If it has several servers, hasIdle returns false, because it can't tell to
// which of them a connection is.
func (s *server) hasIdle() bool {
	return !s.sharded.Load() && s.client.PoolStats().IdleConns > 0
}

// connect waits, up to ConnectTimeout, until there is a connection to the server of the client only. With nil for only, it waits for
// all servers of the store's client until the store's timeout, and after that for any one, so that servers that are down don't delay
// the keys of others.
//
// A connection may take longer than a decision waits: decisions fail after the store's timeout, and later ones find the connection.
func (s *server) connect(only *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.ConnectTimeout())
	anyReady, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		err := s.reach(ctx, only, anyReady)
		if why := err; lost(err) && !errors.Is(err, context.DeadlineExceeded) {
			if !s.sharded.Load() { // an error of one of several servers says nothing about the others
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

// reach waits until there is a connection to the server of the client only, or to all servers of the store's client if only is nil.
// In the latter case it sends to anyReady when the first server has a connection.
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

// addressOf returns the address of the server of the client only, or of all servers of the store's client if only is nil.
func (s *server) addressOf(only *redis.Client) string {
	if only != nil {
		return address.Of(only)
	}
	return s.address
}

// noConnection returns the error of a call that waited so long for a connection. only is that of connect.
func (s *server) noConnection(only *redis.Client, after time.Duration) error {
	e := &cause.Unconnected{Address: s.addressOf(only), After: after}
	if last := s.dialError.Load(); last != nil {
		e.Cause = *last
	}
	return e
}

// timedOut returns the error of a call that was sent and got no answer in time. It names a connection that could not be made, if
// that may be why.
func (s *server) timedOut() error {
	if s.dialError.Load() != nil {
		return s.noConnection(nil, s.timeout)
	}
	return timeoutError(s.timeout)
}

// ping sends PING by one: as a command and as a pipeline, because go-redis has a pool of connections for each (v9.23 has). It also
// sends PING by each of others, so that the client of a Cluster asks which server has which slot.
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

// sendPing sends PING by client.
func sendPing(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
}

// sentOnce is a command that go-redis does not retry. A retry after a timeout could charge a request twice.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }

// rediscover has the client of a Cluster ask, in the background, which server has which slot, if err is not a server's reply. By
// itself the client asks only when a server redirects it, and a server that is down redirects nothing.
func (s *server) rediscover(ctx context.Context, err error) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	if ok && !fromServer(err) {
		cluster.ReloadState(ctx)
	}
}
