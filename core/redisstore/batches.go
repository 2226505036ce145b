package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/outage"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// batches is the innermost store of a Store: Redis makes its decisions, and
// concurrent requests to a server share script calls.
type batches struct {
	config   store.Config
	prefix   string        // of its keys: what keyPrefix returned
	timeout  time.Duration // see WithTimeout
	client   redis.UniversalClient
	address  string      // of the client's servers, for messages
	sharded  atomic.Bool // keys may be on different servers, so a script call has one key
	noStruct atomic.Bool // a server's Lua lacks the struct library: see script
	calls    callPool
	traffic  traffic
	outages  outage.Totals
	nodes    nodes

	endsWithContext bool                   // the client's commands do; by default they end with its ReadTimeout
	shared          atomic.Pointer[shared] // the latest: see contextFor
	late            atomic.Bool            // goroutines of this process run late

	placement placement     // whether the client's server is one
	eviction  evictionWatch // warns once if a server may drop keys when its memory is full
}

// open sets the client, and what follows from it and from the settings.
func (s *batches) open(client redis.UniversalClient, set settings) {
	options := settingsOfClient(client)
	s.client, s.address, s.endsWithContext = client, options.address, options.endsWithContext
	one, _ := client.(*redis.Client)
	s.sharded.Store(one == nil)
	s.placement.asked.Store(one == nil)
	s.placement.known.Store(one == nil)
	most := maxInFlight(options.poolSize)
	if s.config.Clock != nil {
		most = 1 // so that the clock's instants arrive in their order
	}
	clientOf, known := clientByKey(client)
	s.nodes.clientOf = clientOf
	s.nodes.known.Store(known)
	s.nodes.newNode = func(only *redis.Client) *node {
		n := &node{batches: s, only: only, address: s.address, most: most}
		if only != nil {
			n.address = settingsOfClient(only).address
		}
		n.breaker = outage.New(outage.Settings{
			Failures: set.failures, Pause: set.pause, Several: s.nodes.several(), Totals: &s.outages,
			Name: "Redis", Describe: diagnosis, Server: n.address, Logger: s.config.Log,
			Send: n.sendKept,
		})
		return n
	}
	s.nodes.home = s.nodes.newNode(one)
}

// Config returns the store's configuration.
func (s *batches) Config() *store.Config { return &s.config }

// Do has Redis decide r. Other requests may share its script call.
func (s *batches) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := s.config.ClockError(); err != nil { // checked here, because it must not count as a failure of a server
		return store.Answer{}, err
	}
	o, err := s.decide(ctx, &r, nil)
	if err != nil {
		return store.Answer{}, &failure{inPolicy(r.Policy()), err}
	}
	s.eviction.look(s)
	return o.answer, nil
}

// DoTogether has one script call decide two or more requests. It returns
// [store.ErrApart] if their keys may be on different servers.
func (s *batches) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	if !oneBucket(requests) {
		if s.placement.wait(ctx, s); s.sharded.Load() {
			return nil, store.ErrApart
		}
	}
	if err := s.config.ClockError(); err != nil {
		return nil, err
	}
	var others []member
	for _, r := range requests[1:] {
		others = append(others, member{key: redisKey(s.prefix, r.Policy(), r.Key()), request: r})
	}
	o, err := s.decide(ctx, &requests[0], others)
	if err != nil {
		return nil, &failure{"", err}
	}
	s.eviction.look(s)
	return o.joint, nil
}

// Reset deletes the bucket of a policy and key, whatever its keys contain.
func (s *batches) Reset(ctx context.Context, policy, key string) error {
	key = redisKey(s.prefix, policy, key)
	n := s.nodes.find(key)
	report, err := n.breaker.Enter()
	if err == nil {
		if err = s.del(ctx, key); lost(err) && ctx.Err() == nil {
			go func() { _ = n.reach() }() // so that the next call finds a connection that works
		}
		report(err)
	}
	if err != nil {
		return &failure{"reset in " + inPolicy(policy), err}
	}
	return nil
}

// del deletes a bucket and its holds. It returns when the store's timeout or ctx
// ends.
func (s *batches) del(ctx context.Context, key string) error {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	del := redis.NewCmd(bounded, "del", key, holdsKey(s.prefix, key))
	switch {
	case s.run(bounded, []redis.Cmder{del}):
		return withoutArguments(del.Err())
	case ctx.Err() != nil:
		return outage.CallerDone{Cause: ctx.Err()}
	}
	return timeoutError(s.timeout)
}

// stats returns counts of what was sent, and the worst state of a breaker.
func (s *batches) stats() storestats.Stats {
	b, t := &s.outages, &s.traffic
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

// decide has the node of r's key decide r, together with others.
func (s *batches) decide(ctx context.Context, r *store.Request, others []member) (outcome, error) {
	key := redisKey(s.prefix, r.Policy(), r.Key())
	return s.nodes.find(key).decide(ctx, key, r, others)
}
