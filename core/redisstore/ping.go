package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/breaker"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Ping returns nil if the store can decide, for start-up and health checks: "Redis refuses the password or the user", or a
// wrong port, is known before the first request.
//
// It asks each server, or each master of a Cluster and each shard of a Ring that the client takes for well, for an answer.
// Then it does on one of them what decisions and Reset do, with a key of its own that it deletes: it loads the script, takes
// tokens twice, and resets. So a user that lacks one of these rights, a replica and a full memory are found.
//
// The error wraps [core.ErrUnavailable] and the cause. It names the server, and never the password. Ping does not look at the
// breaker and does not count for it, and it makes a connection if there is none. It returns when ctx ends, with ctx's error in
// its error, and after a second, or ten times the store's timeout if that is longer. It costs about four round trips and sends
// 45 KB.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.mistaken(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	done := make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		done <- s.ping(bounded)
	}()
	var err error
	select {
	case err = <-done:
	case <-bounded.Done():
		select {
		case err = <-done:
		case <-time.After(s.batches.server.timeout / shares): // the client's error says more
			err = s.unreachable(bounded.Err())
		}
	}
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
}

// unreachable is the error of a ping that ctx ended with err.
func (s *Store) unreachable(err error) error {
	return fmt.Errorf("%s: %s: %w", s.batches.server.address, breaker.Words(err), err)
}

// ping is Ping without a bound.
func (s *Store) ping(ctx context.Context) error {
	at := func(where string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %s: %w", where, breaker.Words(err), err)
	}
	err := s.batches.server.Each(ctx, func(ctx context.Context, one redis.UniversalClient, _ bool) error {
		return at(address.Of(one), withoutArguments(one.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})))
	})
	if err != nil {
		return err
	}
	return at(s.batches.server.address, s.probe(ctx))
}

// probe takes tokens of a key that nobody else uses, and deletes it.
func (s *Store) probe(ctx context.Context) (err error) {
	defer recovered(&err)
	limit := bucket.Spec{Capacity: 2, RefillRate: 2, RefillInterval: time.Second}
	plan := bucket.NewPlan([]bucket.Rate{bucket.NewRate(limit, 1)})
	name := rand.Text()
	key := redisKey(s.batches.prefix, "ping", name)
	now, err := s.batches.server.instant()
	if err != nil {
		return err
	}
	args := func() []any {
		request := store.NewRequest("ping", name, bucket.Request{Plan: plan, N: 1})
		return scriptArgs([]*call{{member: member{key: key, request: request}}}, now, false)
	}
	if _, err = s.batches.server.eval(ctx, s.batches.server.client, args()); err != nil {
		return err
	}
	// EVAL is what a store does that finds the script lost.
	cmd := command(ctx, eval, s.batches.server.script().Text, args())
	if err = withoutArguments(s.batches.server.client.Process(ctx, cmd)); err != nil {
		return err
	}
	return withoutArguments(s.batches.server.client.Del(ctx, key).Err())
}
