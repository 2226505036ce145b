package redisstore

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/distance"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/eviction"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/slot"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// batches is a [store.JointStore] that has Redis decide. Decisions of one node that are asked at the same time are sent
// together.
type batches struct {
	sender

	config   store.Config
	prefix   string // of keys
	nodes    nodes
	breakers breaker.Group

	eviction eviction.Watch
}

// to has f send to the servers of client. A store with an injected clock sends one call after another, so that the clock's
// instants arrive in order.
func (s *batches) to(client redis.UniversalClient, set settings, inOrder bool) {
	room := distance.Room(client)
	if inOrder {
		room = 1
	}
	clientOf, known := route(client)
	s.nodes.clientOf = clientOf
	s.nodes.known.Store(known)
	s.nodes.of = func(client *redis.Client) *node {
		n := &node{sender: &s.sender, client: client, breaker: s.breakers.New(s.server.at(client), set.failures, set.pause, s.server.logger)}
		if clientOf != nil {
			n.router = &s.nodes
		}
		q := &n.queue
		q.room, q.timeout, q.longest = room, set.timeout, longest*set.timeout
		q.expire, q.spare = n.expire, s.server.spare
		return n
	}
	s.nodes.home, s.nodes.stray = s.nodes.of(nil), s.nodes.of(nil)
}

// Config is how the store was configured.
func (s *batches) Config() *store.Config { return &s.config }

// Do has r decided by Redis, together with what others ask at this moment.
func (s *batches) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := s.config.ClockError(); err != nil { // no server would take that, and it is no failure of one
		return store.Answer{}, err
	}
	o, err := s.board(ctx, r, nil)
	if err != nil {
		return store.Answer{}, &failure{inPolicy(r.Policy()), serverClock(err)}
	}
	s.eviction.Look(s.server)
	return o.answer, nil
}

// DoTogether has requests, of which there are several, decided by Redis in one step. It returns [store.ErrApart] where the keys
// may be on different servers.
func (s *batches) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if s.server.scattered.Load() {
		return nil, store.ErrApart
	}
	if err := s.config.ClockError(); err != nil {
		return nil, err
	}
	var others []member
	for _, r := range requests[1:] {
		others = append(others, member{key: redisKey(s.prefix, r.Policy(), r.Key()), request: r})
	}
	o, err := s.board(ctx, requests[0], others)
	if err != nil {
		return nil, serverClock(err)
	}
	s.eviction.Look(s.server)
	for i, a := range o.joint {
		if a.Err != nil {
			o.joint[i].Err = &failure{inPolicy(requests[i].Policy()), a.Err}
		}
	}
	return o.joint, nil
}

// Reset deletes the key of a policy's bucket, whatever it holds.
func (s *batches) Reset(ctx context.Context, policy, key string) error {
	key = redisKey(s.prefix, policy, key)
	report, err := s.nodes.find(key).breaker.Enter()
	if err == nil {
		err = s.del(ctx, key)
		report(err)
	}
	if err != nil {
		return &failure{"reset in " + inPolicy(policy), err}
	}
	return nil
}

// del deletes a key, in a goroutine that runs on when nobody waits for it any more: go-redis does not stop reading when a
// context ends. A hook of the client that panics is a failure like others.
func (s *batches) del(ctx context.Context, key string) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		var err error
		defer func() { done <- err }()
		defer recovered(&err)
		err = withoutArguments(s.server.client.Del(own, key).Err())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return breaker.CallerLeft{Cause: ctx.Err()}
	case <-time.After(s.timeout):
		return timeoutError(s.timeout)
	}
}

// stats is what was sent, and how the breakers are.
func (s *batches) stats() storestats.Stats {
	b, t := &s.breakers, &s.traffic
	s.nodes.forget()
	stats := storestats.Stats{
		Unreadable: s.config.Unreadable(),
		Opened:     b.Opened(), Away: b.Away(), Calls: t.calls.Load(), Decisions: t.decisions.Load(),
	}
	s.nodes.each(func(n *node) { stats.Breaker = max(stats.Breaker, n.breaker.State()) })
	for i := range stats.Batches {
		stats.Batches[i] = t.batches[i].Load()
	}
	return stats
}

// log is where the store's warnings go.
func (s *batches) log() *slog.Logger {
	if s.config.Logger != nil {
		return s.config.Logger
	}
	return slog.Default()
}

// board has r decided by the node of its key, with others that are decided together with it, and waits for the outcome.
func (s *batches) board(ctx context.Context, r store.Request, others []member) (outcome, error) {
	key := redisKey(s.prefix, r.Policy(), r.Key())
	return s.nodes.find(key).board(ctx, key, r, others)
}

// nodes finds the node that has a key. Where one server has all keys there is one node, and looking costs nothing.
type nodes struct {
	// home is the node of all keys. Of a Cluster and a Ring it is that of keys whose server is not known.
	home *node
	// clientOf is the client's own routing. nil: one server has all keys, or the client does not tell.
	clientOf func(ctx context.Context, key string) (*redis.Client, error)
	// of makes the node of one server.
	of func(client *redis.Client) *node
	// known is set when clientOf does not have to ask the network.
	known atomic.Bool

	// stray is the node of the slots in strays: those that a server has refused. It sends what it sends to whichever servers the
	// client tries, and must not have others wait for them.
	stray  *node
	strays slot.Set

	mu      sync.Mutex                              // is held to replace servers
	servers atomic.Pointer[map[*redis.Client]*node] // that keys were found on
}

// forgottenAfter is after how long without decisions the node of a server is forgotten: its keys are elsewhere.
const forgottenAfter = 10 * time.Second

// route returns the client's own routing by key, and whether it can always tell: a Cluster's client must ask the network
// first.
func route(client redis.UniversalClient) (clientOf func(ctx context.Context, key string) (*redis.Client, error), known bool) {
	switch c := client.(type) {
	case interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}:
		return c.MasterForKey, false
	case interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}:
		return func(_ context.Context, key string) (*redis.Client, error) { return c.GetShardClientForKey(key) }, true
	}
	return nil, true
}

// find returns the node of key.
func (ns *nodes) find(key string) *node {
	if ns.clientOf == nil || !ns.known.Load() {
		return ns.home
	}
	if ns.strays.Has(key) {
		return ns.stray
	}
	client, err := ns.clientOf(context.Background(), key)
	if err != nil {
		return ns.home
	}
	if n := ns.list()[client]; n != nil {
		return n
	}
	return ns.add(client)
}

// list returns the nodes of servers. It must not be changed.
func (ns *nodes) list() map[*redis.Client]*node {
	if list := ns.servers.Load(); list != nil {
		return *list
	}
	return nil
}

// add returns the node of a server that had none. It forgets others that nobody asks.
func (ns *nodes) add(client *redis.Client) *node {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.list()[client]; n != nil {
		return n
	}
	list := ns.used()
	list[client] = ns.of(client)
	ns.servers.Store(&list)
	return list[client]
}

// forget forgets the nodes that nobody asks.
func (ns *nodes) forget() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if list := ns.used(); len(list) < len(ns.list()) {
		ns.servers.Store(&list)
	}
	if ns.clientOf == nil {
		return
	}
	for _, n := range []*node{ns.home, ns.stray} {
		if n.breaker.Open() && n.queue.unused(forgottenAfter) {
			n.breaker.Rest()
		}
	}
}

// used returns the nodes that are in use, and retires the others. mu is held.
func (ns *nodes) used() map[*redis.Client]*node {
	list := make(map[*redis.Client]*node)
	for client, n := range ns.list() {
		if n.queue.unused(forgottenAfter) {
			n.breaker.Retire()
		} else {
			list[client] = n
		}
	}
	return list
}

// each calls do with every node. A store without a client has none.
func (ns *nodes) each(do func(*node)) {
	if ns.home == nil {
		return
	}
	do(ns.home)
	if ns.clientOf != nil {
		do(ns.stray)
	}
	for _, n := range ns.list() {
		do(n)
	}
}

// connected notes that the client knows where keys are, once it is connected.
func (ns *nodes) connected(n *node) {
	if n == ns.home {
		ns.known.Store(true)
	}
}

// sort queues those of calls again that came before their node was known.
func (ns *nodes) sort(n *node, calls []*call) (own []*call) {
	if n != ns.home || !ns.known.Load() {
		return calls
	}
	own = calls[:0]
	for _, c := range calls {
		if other := ns.find(c.key); other == n {
			own = append(own, c)
		} else {
			other.enqueue(c)
		}
	}
	return own
}

// wanders reports whether n is the node of strays.
func (ns *nodes) wanders(n *node) bool { return n == ns.stray }

// refused notes that the slot of c is a stray.
func (ns *nodes) refused(c *call, requeue bool) {
	ns.strays.Add(c.key)
	if requeue {
		c.landed = false
		c.state.Store(waiting)
		ns.stray.enqueue(c)
	}
}

// found notes that the slot of c is no stray.
func (ns *nodes) found(c *call) { ns.strays.Remove(c.key) }
