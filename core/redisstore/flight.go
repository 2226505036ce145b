package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/distance"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/eviction"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/slot"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// flights carry decisions to Redis: those of one node that are asked at the same time together.
type flights struct {
	sender

	prefix   string // of keys
	nodes    nodes
	breakers breaker.Group

	eviction eviction.Watch
}

// to has f send to the servers of client. A store with an injected clock sends one call after another, so that the clock's
// instants arrive in order.
func (f *flights) to(client redis.UniversalClient, set settings, inOrder bool) {
	room := distance.Room(client)
	if inOrder {
		room = 1
	}
	clientOf, known := route(client)
	f.nodes.clientOf = clientOf
	f.nodes.known.Store(known)
	f.nodes.of = func(client *redis.Client) *node {
		n := &node{sender: &f.sender, client: client, breaker: f.breakers.New(f.server.at(client), set.failures, set.pause, f.server.logger)}
		if clientOf != nil {
			n.router = &f.nodes
		}
		q := &n.queue
		q.room, q.timeout, q.longest = room, set.timeout, longest*set.timeout
		q.expire, q.spare = n.expire, f.server.spare
		return n
	}
	f.nodes.home, f.nodes.stray = f.nodes.of(nil), f.nodes.of(nil)
}

// ask has r decided by Redis, together with what others ask at this moment.
func (f *flights) ask(ctx context.Context, r store.Request) (store.Answer, error) {
	o, err := f.board(ctx, r, nil)
	if err != nil {
		return store.Answer{}, fmt.Errorf("policy %q: %w", r.Policy(), serverClock(err))
	}
	f.eviction.Look(f.server)
	return o.answer, nil
}

// askTogether has requests, of which there are several, decided by Redis in one step.
func (f *flights) askTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	var others []member
	for _, r := range requests[1:] {
		others = append(others, member{key: redisKey(f.prefix, r.Policy(), r.Key()), request: r})
	}
	o, err := f.board(ctx, requests[0], others)
	if err != nil {
		return nil, serverClock(err)
	}
	f.eviction.Look(f.server)
	for i, a := range o.joint {
		if a.Err != nil {
			o.joint[i].Err = fmt.Errorf("policy %q: %w", requests[i].Policy(), a.Err)
		}
	}
	return o.joint, nil
}

// board has r decided by the node of its key, with others that are decided together with it, and waits for the outcome.
func (f *flights) board(ctx context.Context, r store.Request, others []member) (outcome, error) {
	key := redisKey(f.prefix, r.Policy(), r.Key())
	return f.nodes.find(key).board(ctx, key, r, others)
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
