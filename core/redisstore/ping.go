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
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/cause"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Ping returns nil if the store can decide, for start-up and health checks: "Redis refuses the password or the user", or a
// wrong port, is known before the first request.
//
// First it sends PING to each server: to each master of a Cluster, and to each shard of a Ring that the client considers up.
// Then it does on one server what decisions and Reset do, with a key of its own that it deletes: it loads the script, takes
// tokens twice, and resets. So it finds a user without one of these rights, a replica, and a server whose memory is full.
//
// The error wraps [core.ErrUnavailable] and the cause. It names the server, and never the password. Ping neither asks the
// breaker nor counts for it, and it opens a connection if there is none. It takes a second at most, or ten times the store's
// timeout if that is longer. If ctx ends before, the error wraps ctx's error too. It costs about four round trips and sends
// 51 KB.
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
		case <-time.After(s.batches.server.timeout / contextSlack): // the client's error says more
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
	return fmt.Errorf("%s: %s: %w", s.batches.server.address, cause.Describe(err), err)
}

// ping is Ping without a time limit of its own.
func (s *Store) ping(ctx context.Context) error {
	at := func(where string, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("%s: %s: %w", where, cause.Describe(err), err)
	}
	err := s.batches.server.Each(ctx, func(ctx context.Context, one redis.UniversalClient, _ bool) error {
		return at(address.Of(one), withoutArguments(one.Process(ctx, sentOnce{redis.NewCmd(ctx, "ping")})))
	})
	if err != nil {
		return err
	}
	return at(s.batches.server.address, s.probe(ctx))
}

// probe takes tokens of a key that nobody else uses, and deletes the key.
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
	if _, err = s.batches.server.eval(ctx, args()); err != nil {
		return err
	}
	// A store sends EVAL when the server has lost the script, so the user needs the right to EVAL too.
	cmd := command(ctx, eval, s.batches.server.script().Text, args())
	if err = withoutArguments(s.batches.server.client.Process(ctx, cmd)); err != nil {
		return err
	}
	return withoutArguments(s.batches.server.client.Del(ctx, key).Err())
}
