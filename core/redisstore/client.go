package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
)

// clientSettings are what the options of a client say. The zero value is that
// of a client whose options are not known.
type clientSettings struct {
	endsWithContext bool   // its commands end with their contexts
	poolSize        int    // for each server; 0: go-redis' default
	address         string // of its servers, for messages: "redis://localhost:6379"; without user and password
}

// settingsOfClient returns the settings of a client.
func settingsOfClient(client redis.UniversalClient) clientSettings {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		address := schemeOf(o.TLSConfig) + o.Addr
		switch {
		case o.Addr == "FailoverClient": // as go-redis calls whichever it is
			address = "the master that Sentinel names"
		case o.Network == "unix":
			address = "unix://" + o.Addr
		}
		return clientSettings{o.ContextTimeoutEnabled, o.PoolSize, address}
	case *redis.ClusterClient:
		o := c.Options()
		return clientSettings{o.ContextTimeoutEnabled, o.PoolSize, schemeOf(o.TLSConfig) + strings.Join(o.Addrs, ",")}
	case *redis.Ring:
		o := c.Options()
		return clientSettings{o.ContextTimeoutEnabled, o.PoolSize, schemeOf(o.TLSConfig) + strings.Join(slices.Sorted(maps.Values(o.Addrs)), ",")}
	}
	return clientSettings{}
}

func schemeOf(config *tls.Config) string {
	if config != nil {
		return "rediss://"
	}
	return "redis://"
}

// script returns the plain or the full script for these servers. If one lacks
// the struct library, it is a script that brings its own.
func (s *batches) script(plain bool) *script.Script {
	switch {
	case plain && s.noStruct.Load():
		return script.PlainWithoutStruct
	case plain:
		return script.Plain
	case s.noStruct.Load():
		return script.FullWithoutStruct
	}
	return script.Full
}

// each calls do with a client of each server that has keys: each master of a
// Cluster, concurrently, or each shard of a Ring that is up. If the client has
// one server, it calls do with the client. It returns one of the errors. A panic
// in a hook of the client is an error.
func (s *batches) each(ctx context.Context, do func(ctx context.Context, one redis.UniversalClient) error) (err error) {
	defer recovered(&err)
	ofSeveral := func(ctx context.Context, one *redis.Client) (err error) {
		defer recovered(&err) // each's own does not work in a goroutine of go-redis
		return do(ctx, one)
	}
	switch c := s.client.(type) {
	case interface {
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	}:
		return c.ForEachMaster(ctx, ofSeveral)
	case interface {
		ForEachShard(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	}:
		return c.ForEachShard(ctx, ofSeveral)
	}
	return do(ctx, s.client)
}

// within calls do with a context that ends after connectTimeout. A panic of the
// client is an error.
func (s *batches) within(ctx context.Context, do func(ctx context.Context) error) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, s.connectTimeout())
	defer cancel()
	return do(ctx)
}

// longestWait, times the store's timeout, bounds waits that are no failure of
// Redis: of a queued call while Redis answers others, and of an answer for a
// process that is late.
const longestWait = 10

// minConnectTimeout is the least time that opening a connection may take. With
// TLS it takes seven round trips.
const minConnectTimeout = time.Second

// connectTimeout returns how long opening a connection may take: a second, or
// ten times the store's timeout if that is longer.
func (s *batches) connectTimeout() time.Duration { return connectTimeoutOf(s.timeout) }

func connectTimeoutOf(timeout time.Duration) time.Duration {
	return max(minConnectTimeout, longestWait*timeout)
}

// shared is a context for all commands that are sent before until: one for each
// would cost five allocations and a timer.
type shared struct {
	context.Context
	longer context.Context // ends with the longest wait: see run
	until  time.Time
}

// contextSlack: a shared context ends up to a 16th of the store's timeout later
// than a command's own would. A process that is late by less has time for what its
// callers send themselves.
const contextSlack = 16

// contextFor returns a context for a command that is sent now: it ends after
// the store's timeout. Example: with a timeout of 100 ms, all commands sent from
// 0 to 6 ms share a context that ends at 106 ms. It also has s.late measured.
func (s *batches) contextFor(now time.Time) context.Context {
	latest := s.shared.Load()
	if latest != nil && now.Before(latest.until) {
		return latest
	}
	until := now.Add(s.timeout / contextSlack)
	ending := func(after time.Duration) context.Context {
		ctx, cancel := context.WithDeadline(context.Background(), until.Add(after))
		context.AfterFunc(ctx, cancel)
		return ctx
	}
	latest = &shared{ending(s.timeout), ending(longestWait * s.timeout), until}
	s.shared.Store(latest)
	measure := func(due time.Time) { s.late.Store(lateness(due) > s.timeout/contextSlack) }
	measure(now)
	time.AfterFunc(s.timeout/contextSlack, func() { measure(until) })
	return latest
}

const (
	// usualLateness is how late a goroutine may run in a process that is not
	// late.
	usualLateness = time.Millisecond
	// usualTurn is how long a goroutine runs before it waits for something.
	usualTurn = 100 * time.Microsecond
)

// lateness returns how late this process is, which sees now that something was
// due, or how long a goroutine that is ready will wait for a processor. In a
// process that is late, an answer may have come in time, and only its reader is
// late.
func lateness(due time.Time) time.Duration {
	runnable := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(runnable)
	turns := time.Duration(runnable[0].Value.Uint64()) / time.Duration(runtime.GOMAXPROCS(0))
	return max(time.Since(due), turns*usualTurn)
}

// sentOnce is a command that go-redis does not retry. A retry after a timeout
// could charge a request twice.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }

// rediscover has the client of a Cluster ask, in the background, which server
// has which hash slot, if err is not a server's reply: a server that is down
// redirects nothing.
func (s *batches) rediscover(ctx context.Context, err error) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	if ok && !fromServer(err) {
		cluster.ReloadState(ctx)
	}
}

// silence, as a part of the store's timeout, is how long a connection may leave
// PING without an answer before others are asked.
const silence = 8

// ping waits until a connection of one answers PING. Idle connections may all
// be dead although new ones work: a firewall has forgotten them, or an address
// has moved. So if a PING has no answer soon, ping sends one for each idle
// connection, and another one, which gets a new connection. The client closes
// the connections that do not answer.
func (s *batches) ping(ctx context.Context, one redis.UniversalClient) (err error) {
	idle := int(one.PoolStats().IdleConns)
	errs := make(chan error, idle+3)
	waiting := 0
	send := func(ctx context.Context, by redis.UniversalClient) {
		waiting++
		go func() {
			cmd := redis.NewCmd(ctx, "ping")
			process(ctx, by, sentOnce{cmd})
			errs <- cmd.Err()
		}()
	}
	send(ctx, one)
	timer := time.NewTimer(s.timeout / silence)
	defer timer.Stop()
	for waiting > 0 {
		select {
		case err = <-errs:
			if waiting--; !lost(err) || notExecuted(err) { // the latter: no connection could be opened
				return err
			}
		case <-timer.C:
			if idle < 0 { // those that took up the whole pool are closed now
				send(ctx, one)
			}
		}
		if idle > 0 {
			limit, by := 2*s.timeout, one // if they take up the whole pool, there is time left for a new connection
			if c, ok := one.(*redis.Client); ok && !s.endsWithContext {
				by = c.WithTimeout(limit) // a clone on the same pool; it has no hooks
			}
			own, cancel := context.WithTimeout(ctx, limit)
			context.AfterFunc(own, cancel)
			for range idle + 1 {
				send(own, by)
			}
			idle = -1
			timer.Reset(limit + s.timeout/silence)
		}
	}
	return err
}

// reach waits until there is a connection to the server of the client only. With
// nil for only, it waits for all servers of the store's client until half of the
// store's timeout, and after that for any one: a server that hangs or refuses
// connections must not delay the calls for others, nor fail them.
func (s *batches) reach(only *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.connectTimeout())
	first, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		if only != nil {
			all <- s.ping(ctx, only)
			return
		}
		all <- s.each(ctx, func(ctx context.Context, one redis.UniversalClient) error {
			err := s.ping(ctx, one)
			if !lost(err) {
				select {
				case first <- struct{}{}:
				default: // another server was ready first
				}
			}
			return err
		})
	}()
	var enough <-chan struct{}
	half, tooLong := time.After(s.timeout/2), time.After(s.connectTimeout())
	for {
		select {
		case err := <-all:
			if len(first) > 0 { // at least one is there
				return nil
			}
			return err
		case <-half:
			enough = first
		case <-enough:
			return nil
		case <-tooLong:
			return errNoConnection
		}
	}
}

// errNoConnection: no connection could be opened in time, and it is not known
// why.
var errNoConnection = errors.New("opening one takes too long")
