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
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Ping returns nil if the store can decide. It is for start-up and health
// checks: it finds a wrong port or password before the first request does.
//
// It sends PING to each master of a Cluster, and to each shard of a Ring that
// the client considers up. Then it does on one server what decisions and Reset
// do, with a key of its own: it has both scripts take tokens, and deletes the
// key. So it finds a user without one of these rights, a replica, and a server
// whose memory is full.
//
// The error wraps [core.ErrUnavailable] and the cause, and ctx's error if ctx
// has ended. It names the server, and never the password. Ping neither asks the
// breaker nor counts for it, and it opens a connection if there is none. It
// takes a second at most, or ten times the store's timeout if that is longer.
// It costs eight round trips, and one more for each script that the server
// lacks.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.mistaken(); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.batches.connectTimeout())
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
		case <-time.After(s.batches.timeout / contextSlack): // the client's error, if it comes, says more
			err = diagnosed(s.batches.address, bounded.Err())
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

// ping is Ping without a time limit of its own.
func (s *Store) ping(ctx context.Context) error {
	err := s.batches.each(ctx, func(ctx context.Context, one redis.UniversalClient) error {
		return diagnosed(settingsOfClient(one).address, withoutArguments(s.batches.ping(ctx, one)))
	})
	if err != nil {
		return err
	}
	return diagnosed(s.batches.address, s.probe(ctx))
}

// probe has both scripts decide on a bucket that nobody else uses, and deletes
// its keys.
func (s *Store) probe(ctx context.Context) (err error) {
	defer recovered(&err)
	limit := bucket.Spec{Capacity: 9, RefillRate: 1, RefillInterval: time.Second}
	slots := bucket.Spec{Capacity: 2, Mode: bucket.Concurrent, MaxHold: time.Second}
	plain := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(limit, 1)})
	full := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(limit, 1), bucket.NewRate(slots, 2)})
	slots.MaxHold = time.Microsecond
	over := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(limit, 1), bucket.NewRate(slots, 2)})
	name := rand.Text()
	key := redisKey(s.batches.prefix, "ping", name)
	now, err := s.batches.instant()
	if err != nil {
		return err
	}
	c := &call{member: member{key: key, request: store.NewRequest("ping", name, bucket.Request{Set: plain, N: 1})}}
	take := bucket.Request{Set: full, N: 1, Ticket: 1}
	extend := bucket.Request{Set: full, Action: bucket.Extend, N: 1, Ticket: 1, Ends: take.Ending().Ends}
	brief := bucket.Request{Set: over, N: 1, Ticket: 2} // the next request ends it
	for _, r := range []bucket.Request{c.request.Request, c.request.Request, brief, take, extend, take.Ending()} {
		asked := &call{member: member{key: key, request: store.NewRequest("ping", name, r)}}
		err := s.batches.sendCommands([]*call{asked}, now)
		if err == nil {
			err = asked.outcome.err
		}
		if err != nil {
			return err
		}
	}
	// Decisions send EVAL if the server has lost the script, so the user needs
	// the right to EVAL too.
	eval := newBatch([]*call{c}, false).commands
	s.batches.prepare(eval, now, true)
	s.batches.exec(ctx, eval)
	if err := withoutArguments(eval[0].sent.Err()); err != nil {
		return err
	}
	return withoutArguments(s.batches.client.Del(ctx, key, holdsKey(s.batches.prefix, key)).Err())
}
