package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
)

// server is what a store knows of its client: one server, or several that share
// the keys.
type server struct {
	client    redis.UniversalClient
	prefix    string           // of its keys: what keyPrefix returned
	sharded   atomic.Bool      // keys may be on different servers, so a script call has one key
	noStruct  atomic.Bool      // a server's Lua lacks the struct library: see script
	inline    bool             // the client's commands end with their contexts, so a caller may send its call itself
	clock     func() time.Time // nil: the server's clock counts
	timeout   time.Duration    // see WithTimeout
	calls     callPool
	traffic   traffic
	contexts  [2]atomic.Pointer[sharedContext] // the latest without and with a watchdog: see contextFor
	logger    func() *slog.Logger
	address   string                 // of the client's servers, for messages
	master    atomic.Pointer[string] // the same, if the client asks Sentinel: see findMaster
	finding   sync.Mutex             // held by findMaster
	dialError atomic.Pointer[error]  // why a connection could not be made; nil once one is made
}

// setClient sets the client and what follows from it.
func (s *server) setClient(client redis.UniversalClient) {
	s.client = client
	set := settingsOfClient(client)
	s.inline, s.address = set.endsWithContext, set.address
	_, one := client.(*redis.Client)
	s.sharded.Store(!one)
}

// clientSettings are what the options of a client say. The zero value is that
// of a client whose options are not known.
type clientSettings struct {
	endsWithContext bool   // its commands end with their contexts; by default they end with its ReadTimeout
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
		case asksSentinel(c):
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

// asksSentinel reports whether a client finds its server by asking Sentinel:
// that is what go-redis then has for its address.
func asksSentinel(client *redis.Client) bool { return client.Options().Addr == "FailoverClient" }

// masterOf returns the address of the master that Sentinel names now, or "" if
// it does not say. It opens a connection as client does, and closes it:
// go-redis shows the address nowhere else. A master that can't be reached has
// its address in the error.
func masterOf(ctx context.Context, client *redis.Client) string {
	o := client.Options()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err == nil {
		defer conn.Close()
		return schemeOf(o.TLSConfig) + conn.RemoteAddr().String()
	}
	if op, ok := err.(*net.OpError); ok && op.Addr != nil { //nolint:errorlint // wrapped, it is of a connection to Sentinel
		return schemeOf(o.TLSConfig) + op.Addr.String()
	}
	return ""
}

// longestWait, times the store's timeout, bounds waits that are no failure of
// Redis: of a queued call while Redis answers others, and of an answer for its
// reader.
const longestWait = 10

// script returns the plain or the full script for these servers. If one lacks
// the struct library, it is a script that brings its own.
func (s *server) script(plain bool) *script.Script {
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
// one server, it calls do with the client, and several is false. It returns one
// of the errors. A panic in a hook of the client is an error.
func (s *server) each(ctx context.Context, do func(ctx context.Context, one redis.UniversalClient, several bool) error) (err error) {
	defer recovered(&err)
	oneOfSeveral := func(ctx context.Context, one *redis.Client) (err error) {
		defer recovered(&err) // each's own does not work in a goroutine of go-redis
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

// within calls do with a context that ends after connectTimeout. A panic of the
// client is an error.
func (s *server) within(ctx context.Context, do func(ctx context.Context) error) (err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, s.connectTimeout())
	defer cancel()
	return do(ctx)
}

// sharedContext is a context for all commands that are sent before until: one
// for each would cost five allocations.
type sharedContext struct {
	context.Context
	until time.Time
}

// contextSlack: a shared context ends up to a 64th of the store's timeout later
// than a command's own would.
const contextSlack = 64

// contextFor returns a context for a command that is sent now: it ends after the
// store's timeout, or after ten times that if a watchdog enforces the timeout.
// Example: with a timeout of 100 ms, all commands sent from 0 to 1.5 ms share a
// context that ends at 101.5 ms.
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

// sendPing sends PING by client.
func sendPing(ctx context.Context, client redis.UniversalClient) error {
	return client.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
}

// sentOnce is a command that go-redis does not retry. A retry after a timeout
// could charge a request twice.
type sentOnce struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to this package.
func (sentOnce) NoRetry() bool { return true }

// rediscover has the client of a Cluster ask, in the background, which server
// has which hash slot, if err is not a server's reply: a server that is down
// redirects nothing.
func (s *server) rediscover(ctx context.Context, err error) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	if ok && !fromServer(err) {
		cluster.ReloadState(ctx)
	}
}

// minConnectTimeout is the least time that opening a connection may take. With
// TLS it takes seven round trips.
const minConnectTimeout = time.Second

// connectTimeout returns how long opening a connection may take: a second, or
// ten times the store's timeout if that is longer.
func (s *server) connectTimeout() time.Duration { return connectTimeoutOf(s.timeout) }

func connectTimeoutOf(timeout time.Duration) time.Duration {
	return max(minConnectTimeout, longestWait*timeout)
}

// hasIdle reports whether the client has an idle connection. If it has several
// servers, hasIdle returns false, because it can't tell to which of them a
// connection is.
func (s *server) hasIdle() bool {
	return !s.sharded.Load() && s.client.PoolStats().IdleConns > 0
}

// connect waits, up to connectTimeout, until there is a connection to the
// server of the client only. With nil for only, it waits for all servers of the
// store's client until half of the store's timeout, and after that for any one:
// a server that hangs must not delay the calls for others. Decisions fail
// meanwhile after the store's timeout, and later ones find the connection.
func (s *server) connect(only *redis.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.connectTimeout())
	anyReady, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		var asking sync.WaitGroup
		asking.Go(func() { s.findMaster(ctx) })
		err := s.reach(ctx, only, anyReady)
		if lost(err) {
			asking.Wait() // its message names the address
		}
		if why := err; lost(err) && !errors.Is(err, context.DeadlineExceeded) {
			if !s.sharded.Load() { // an error of one of several servers says nothing about the others
				s.dialError.Store(&why)
			}
			err = &unconnected{address: s.addressOf(only), cause: err}
		}
		all <- err
	}()
	timer := time.NewTimer(s.timeout / 2)
	defer timer.Stop()
	var enough chan struct{}
	for range 2 {
		select {
		case err := <-all:
			return err
		case <-enough:
			return nil
		case <-timer.C:
			enough = anyReady
			timer.Reset(s.connectTimeout() - s.timeout/2)
		}
	}
	return s.noConnection(only, s.connectTimeout())
}

// reach waits until there is a connection to the server of the client only, or
// to all servers of the store's client if only is nil. In the latter case it
// sends to anyReady when the first server has a connection.
func (s *server) reach(ctx context.Context, only *redis.Client, anyReady chan<- struct{}) error {
	if only != nil {
		return s.ping(ctx, only)
	}
	return s.each(ctx, func(ctx context.Context, one redis.UniversalClient, _ bool) error {
		err := s.ping(ctx, one)
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

// addressOf returns the address of the server of the client only, or of all
// servers of the store's client if only is nil.
func (s *server) addressOf(only *redis.Client) string {
	if only != nil {
		return settingsOfClient(only).address
	}
	if master := s.master.Load(); master != nil {
		return *master
	}
	return s.address
}

// findMaster learns for messages which server is the master, if the client asks
// Sentinel. If another goroutine does, or ctx ends, the last one stays known.
func (s *server) findMaster(ctx context.Context) {
	client, ok := s.client.(*redis.Client)
	if !ok || !asksSentinel(client) || !s.finding.TryLock() {
		return
	}
	defer s.finding.Unlock()
	var err error
	defer recovered(&err) // of a Dialer of the app
	if master := masterOf(ctx, client); master != "" {
		s.master.Store(&master)
	}
}

// noConnection returns the error of a call that waited so long for a
// connection. only is that of connect.
func (s *server) noConnection(only *redis.Client, after time.Duration) error {
	e := &unconnected{address: s.addressOf(only), after: after}
	if last := s.dialError.Load(); last != nil {
		e.cause = *last
	}
	return e
}

// timedOut returns the error of a call that was sent and got no answer in time.
// It names a connection that could not be made, if that may be why.
func (s *server) timedOut() error {
	if s.dialError.Load() != nil {
		return s.noConnection(nil, s.timeout)
	}
	return timeoutError(s.timeout)
}

// ping waits until a connection of one answers PING. If go-redis has
// connections for pipelines alone (v9.23 has), one of these must answer too.
func (s *server) ping(ctx context.Context, one redis.UniversalClient) error {
	errs := make(chan error, 1)
	if _, own := pipelineIdle(one); own && s.sharded.Load() {
		go deliver(errs, func() error {
			return s.pingAny(ctx, one, func() int { idle, _ := pipelineIdle(one); return idle }, pipelinePing)
		})
	} else {
		errs <- nil
	}
	err := s.pingAny(ctx, one, func() int { return int(one.PoolStats().IdleConns) }, sendPing)
	return errors.Join(err, <-errs)
}

// silence, as a part of the store's timeout, is how long a connection may leave
// PING without an answer before others are asked.
const silence = 8

// pingAny sends PING by send, and waits until a connection answers. Idle
// connections may all be dead although new ones work: a firewall has forgotten
// them, or an address has moved. So if a PING has no answer soon, pingAny sends
// one for each idle connection, and another one, which gets a new connection.
// The client closes the connections that do not answer.
func (s *server) pingAny(ctx context.Context, one redis.UniversalClient, idle func() int, send func(context.Context, redis.UniversalClient) error) error {
	wereIdle := idle() > 0
	first := make(chan error, 1)
	go deliver(first, func() error { return send(ctx, one) })
	if !wereIdle { // it opens a connection, which may take long
		return <-first
	}
	timer := time.NewTimer(s.timeout / silence)
	defer timer.Stop()
	select {
	case err := <-first:
		if !lost(err) || notExecuted(err) { // the latter: it found no idle connection, and could not open one
			return err
		}
		first = nil
	case <-timer.C:
	}
	// They end earlier than ctx. So if they take up the whole pool, there is
	// time left for a new connection.
	limit := s.connectTimeout() / 2
	bounded := one
	if c, ok := one.(interface {
		WithTimeout(d time.Duration) *redis.Client
	}); ok && !s.inline { // its commands don't end with their contexts
		bounded = c.WithTimeout(limit)
	}
	waiting := idle() + 1
	others := make(chan error, waiting)
	for range waiting {
		go deliver(others, func() error {
			own, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
			return send(own, bounded)
		})
	}
	for {
		select {
		case err := <-first:
			return err
		case err := <-others:
			if waiting--; !lost(err) || waiting == 0 && first == nil {
				return err
			}
		}
	}
}

// deliver sends what do returns to result, or the error of a panic in a hook of
// the client.
func deliver(result chan<- error, do func() error) {
	var err error
	defer func() { result <- err }()
	defer recovered(&err)
	err = do()
}

// pipelineIdle returns how many idle connections a client has for pipelines
// alone. own is false if it has none of these, as in versions of go-redis
// without the field PipelineStats.
func pipelineIdle(client redis.UniversalClient) (idle int, own bool) {
	field := reflect.Indirect(reflect.ValueOf(client.PoolStats())).FieldByName("PipelineStats")
	if !field.IsValid() || field.IsNil() {
		return 0, false
	}
	return int(field.Elem().FieldByName("IdleConns").Uint()), true
}

// pipelinePing sends PING by client in a pipeline.
func pipelinePing(ctx context.Context, client redis.UniversalClient) error {
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		return p.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})
	})
	return err
}
