package redisstore

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/timely"
)

//go:embed script.lua
var scriptText string

//go:embed struct.lua
var structText string

// script is what decides, and its name in the server's cache. Both are strings, in the form of arguments.
type script struct{ text, sha any }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// ordinary is for all servers but those that lack Lua's struct library, as miniredis does. There a stand-in for it comes
// first.
var ordinary, withStruct = newScript(scriptText), newScript(structText + scriptText)

// server is the Redis that a store asks: one server, or several that share the keys.
type server struct {
	client    redis.UniversalClient
	scattered atomic.Bool      // keys may be on different servers: a script call can't take several
	standIn   atomic.Bool      // a server's Lua lacks the struct library
	timely    *timely.Client   // the client, where it returns in time
	clock     func() time.Time // nil: the server's
	timeout   time.Duration
	contexts  [2]atomic.Pointer[sharedContext]
	logger    func() *slog.Logger
	address   string                // of the client's servers, for messages
	dialed    atomic.Pointer[error] // why the last connection could not be made, if that is known, until there is one
}

// use sets the client.
func (s *server) use(client redis.UniversalClient) {
	s.client = client
	s.timely = timely.Of(client)
	s.address = address.Of(client)
	_, one := client.(*redis.Client)
	s.scattered.Store(!one)
}

// script is the script that the servers understand.
func (s *server) script() *script {
	if s.standIn.Load() {
		return withStruct
	}
	return ordinary
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

// within returns a context for a call that begins now. It ends after so many times the store's timeout, once or twice, or
// a little later.
func (s *server) within(times int, now time.Time) context.Context {
	latest := &s.contexts[times-1]
	shared := latest.Load()
	if shared == nil || !now.Before(shared.until) {
		until := now.Add(s.timeout / shares)
		ctx, cancel := context.WithDeadline(context.Background(), until.Add(time.Duration(times)*s.timeout))
		context.AfterFunc(ctx, cancel)
		shared = &sharedContext{ctx, until}
		latest.Store(shared)
	}
	return shared
}

// connectPatience is how long a connection may take to be set up, or ten times the store's timeout if that is longer:
// with TLS it takes seven round trips.
const connectPatience = time.Second

// Patience is how long a connection may take to be set up.
func (s *server) Patience() time.Duration { return connectTime(s.timeout) }

// connectTime is the Patience of a store with this timeout.
func connectTime(timeout time.Duration) time.Duration { return max(connectPatience, 10*timeout) }

// Log is where warnings go.
func (s *server) Log() *slog.Logger { return s.logger() }

// spare reports whether the client has a connection that nobody uses. Where there are several servers it can't say.
func (s *server) spare() bool {
	return !s.scattered.Load() && s.client.PoolStats().IdleConns > 0
}

// connect waits until the client has a connection ready, and returns the error if that fails. No decision waits for it:
// its caller leaves when the store's timeout ends, and a later one finds the connection. Of several servers it waits for
// all no longer than the timeout, and then for one: servers that are away must not keep the others' keys waiting.
func (s *server) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Patience())
	anyReady, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		err := s.Each(ctx, func(ctx context.Context, one redis.UniversalClient, several bool) error {
			err := s.ping(ctx, one, several)
			if !lost(err) {
				s.dialed.Store(nil)
				select {
				case anyReady <- struct{}{}:
				default: // another said so already
				}
			}
			return err
		})
		if why := err; lost(err) && !errors.Is(err, context.DeadlineExceeded) {
			if !s.scattered.Load() { // of one of several servers it says nothing of others
				s.dialed.Store(&why)
			}
			err = &breaker.Unconnected{Address: s.address, Cause: err}
		}
		all <- err
	}()
	for _, wait := range []struct {
		time   time.Duration
		enough <-chan struct{}
	}{{s.timeout, nil}, {s.Patience() - s.timeout, anyReady}} {
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
	return s.noConnection(s.Patience())
}

// noConnection is the error of a call that waited so long for a connection.
func (s *server) noConnection(after time.Duration) error {
	e := &breaker.Unconnected{Address: s.address, After: after}
	if last := s.dialed.Load(); last != nil {
		e.Cause = *last
	}
	return e
}

// late is the error of a call that was sent and took too long. It may have waited for a connection.
func (s *server) late() error {
	if s.dialed.Load() != nil {
		return s.noConnection(s.timeout)
	}
	return timeoutError(s.timeout)
}

// ping makes sure that a server has a connection for a command. Where there are several it does so for a pipeline too,
// which go-redis takes from another pool, and has the client learn what it needs to know of them.
func (s *server) ping(ctx context.Context, one redis.UniversalClient, several bool) error {
	if !several {
		return one.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
	}
	errs := make(chan error)
	for _, ping := range []func() error{
		func() error { return one.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")}) },
		func() error { return s.client.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")}) },
		func() error {
			_, err := one.Pipelined(ctx, func(p redis.Pipeliner) error {
				return p.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
			})
			return err
		},
	} {
		go func() {
			var err error
			defer func() { errs <- err }()
			defer recovered(&err)
			err = ping()
		}()
	}
	return errors.Join(<-errs, <-errs, <-errs)
}

// sentOnce is a command that go-redis must not send twice. Its own retries, of timeouts above all, would charge a request
// as often as they reach the server.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }
