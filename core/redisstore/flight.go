package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/distance"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/eviction"
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
		address := ""
		if client != nil {
			address = client.Options().Addr
		}
		n := &node{sender: &f.sender, client: client, breaker: f.breakers.New(address, set.failures, set.pause, f.server.logger)}
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
func (f *flights) ask(ctx context.Context, r core.Request) (core.Answer, error) {
	o, err := f.board(ctx, r, nil)
	if err != nil {
		return core.Answer{}, fmt.Errorf("policy %q: %w", r.Policy(), err)
	}
	f.eviction.Look(f.server)
	return o.answer, nil
}

// askTogether has requests decided by Redis in one step.
func (f *flights) askTogether(ctx context.Context, requests []core.Request) ([]core.Answer, error) {
	var others []member
	for _, r := range requests[1:] {
		others = append(others, member{key: redisKey(f.prefix, r.Policy(), r.Key()), request: r})
	}
	o, err := f.board(ctx, requests[0], others)
	if err != nil {
		return nil, err
	}
	f.eviction.Look(f.server)
	return append([]core.Answer{o.answer}, o.others...), nil
}

// board has r decided by the node of its key, with others that are decided together with it, and waits for the outcome.
func (f *flights) board(ctx context.Context, r core.Request, others []member) (outcome, error) {
	key := redisKey(f.prefix, r.Policy(), r.Key())
	return f.nodes.find(key).board(ctx, key, r, others)
}
