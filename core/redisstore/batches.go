package redisstore

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/eviction"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/rtt"
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
	maxInFlight := rtt.MaxInFlight(client)
	if inOrder {
		maxInFlight = 1
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
		q.maxInFlight, q.timeout, q.longestWait = maxInFlight, set.timeout, longestWait*set.timeout
		q.expire, q.spare = n.expire, s.server.spare
		return n
	}
	s.nodes.home, s.nodes.unassigned = s.nodes.of(nil), s.nodes.of(nil)
}

// Config is how the store was configured.
func (s *batches) Config() *store.Config { return &s.config }

// Do has r decided by Redis, together with what others ask at this moment.
func (s *batches) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if err := s.config.ClockError(); err != nil { // no server would take that, and it is no failure of one
		return store.Answer{}, err
	}
	o, err := s.decide(ctx, r, nil)
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
	o, err := s.decide(ctx, requests[0], others)
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
func (s *batches) decide(ctx context.Context, r store.Request, others []member) (outcome, error) {
	key := redisKey(s.prefix, r.Policy(), r.Key())
	return s.nodes.find(key).decide(ctx, key, r, others)
}
