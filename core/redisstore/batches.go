package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/outage"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// batches is the innermost store of a Store: Redis makes its decisions, and
// concurrent requests to a server share script calls.
type batches struct {
	*server

	config  store.Config
	nodes   nodes
	outages outage.Totals

	eviction evictionWatch // warns once if a server may drop keys when its memory is full
}

// attach makes the nodes of client's servers. inOrder allows one batch in
// flight at a time, so that the instants of an injected clock arrive in their
// order.
func (s *batches) attach(client redis.UniversalClient, set settings, inOrder bool) {
	most := maxInFlight(settingsOfClient(client).poolSize)
	if inOrder {
		most = 1
	}
	clientOf, known := clientByKey(client)
	s.nodes.clientOf = clientOf
	s.nodes.known.Store(known)
	s.nodes.newNode = func(only *redis.Client) *node {
		n := &node{server: s.server, nodes: &s.nodes, only: only, most: most}
		n.breaker = outage.New(outage.Settings{
			Failures: set.failures, Pause: set.pause, Several: s.nodes.several(), Totals: &s.outages,
			Name: "Redis", Describe: diagnosis, Server: func() string { return s.addressOf(only) }, Logger: s.logger,
			Send: n.sendKept,
		})
		return n
	}
	s.nodes.home = s.nodes.newNode(nil)
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
	s.eviction.look(s.server)
	return o.answer, nil
}

// DoTogether has one script call decide two or more requests. It returns
// [store.ErrApart] if their keys may be on different servers.
func (s *batches) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	if s.sharded.Load() && !oneBucket(requests) {
		return nil, store.ErrApart
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
	s.eviction.look(s.server)
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
// ends; go-redis does not always stop reading then.
func (s *batches) del(ctx context.Context, key string) error {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		var err error
		defer func() { done <- err }()
		defer recovered(&err)
		err = withoutArguments(s.client.Del(own, key, holdsKey(s.prefix, key)).Err())
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return outage.CallerDone{Cause: ctx.Err()}
	case <-time.After(s.timeout):
		return timeoutError(s.timeout)
	}
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
func (s *batches) decide(ctx context.Context, r *store.Request, others []member) (*outcome, error) {
	key := redisKey(s.prefix, r.Policy(), r.Key())
	return s.nodes.find(key).decide(ctx, key, r, others)
}
