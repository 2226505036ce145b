package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// connectPatience is how long a connection may take to be set up, or ten times the store's timeout if that
// is longer: with TLS it takes seven round trips.
const connectPatience = time.Second

// patience is how long a connection of s may take to be set up.
func (s *Store) patience() time.Duration { return max(connectPatience, 10*s.timeout) }

// connect waits until the client has a connection ready, or the error of that. It is on nobody's time: who
// waits for a decision meanwhile leaves when the store's timeout ends, and finds the connection next time.
// Of several servers it waits for all no longer than that, and then for one: those that are away must not keep the
// others' keys waiting.
func (s *Store) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	one, all := make(chan struct{}, 1), make(chan error, 1)
	go func() { // go-redis does not always stop when a context ends
		defer cancel()
		all <- s.everyServer(ctx, func(ctx context.Context, server redis.UniversalClient, several bool) error {
			err := s.ping(ctx, server, several)
			if !lost(err) {
				select {
				case one <- struct{}{}:
				default: // it is known
				}
			}
			return err
		})
	}()
	for _, wait := range []struct {
		time time.Duration
		one  <-chan struct{} // is enough
	}{{s.timeout, nil}, {s.patience() - s.timeout, one}} {
		timer := time.NewTimer(wait.time)
		select {
		case err := <-all:
			timer.Stop()
			return err
		case <-wait.one:
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
	return fmt.Errorf("no connection: %w", timeoutError(s.patience()))
}

// spare reports whether the client has a connection that nobody uses. Where there are several servers it can't
// tell.
func (s *Store) spare() bool {
	return !s.scattered.Load() && s.client.PoolStats().IdleConns > 0
}

// ping makes sure that server has a connection for a command. Where servers are several it does so for a pipeline
// too, which go-redis takes from another pool, and has the client learn what it wants to know of them.
func (s *Store) ping(ctx context.Context, server redis.UniversalClient, several bool) error {
	if !several {
		return server.Process(ctx, attempt{redis.NewCmd(ctx, "ping")})
	}
	errs := make(chan error)
	for _, ping := range []func() error{
		func() error { return server.Process(ctx, attempt{redis.NewCmd(ctx, "ping")}) },
		func() error { return s.client.Process(ctx, attempt{redis.NewCmd(ctx, "ping")}) },
		func() error {
			_, err := server.Pipelined(ctx, func(p redis.Pipeliner) error {
				return p.Process(ctx, attempt{redis.NewCmd(ctx, "ping")})
			})
			return err
		},
	} {
		go func() {
			var err error
			defer func() { errs <- err }()
			defer recovered(&err)
			err = ping()
		}()
	}
	return errors.Join(<-errs, <-errs, <-errs)
}

// attempt is a command that go-redis does not try again: the flight that follows tells what is wrong.
type attempt struct{ *redis.Cmd }

// NoRetry tells go-redis to leave retries to us.
func (attempt) NoRetry() bool { return true }

// everyServer has ask ask the client's server, or where keys live on several, each of them: the masters of a
// Cluster, the shards of a Ring. It returns an error of one. A hook of the client that panics is an error.
func (s *Store) everyServer(ctx context.Context, ask func(ctx context.Context, server redis.UniversalClient, several bool) error) (err error) {
	defer recovered(&err)
	each := func(ctx context.Context, server *redis.Client) (err error) {
		defer recovered(&err) // in a goroutine of go-redis
		return ask(ctx, server, true)
	}
	switch c := s.client.(type) {
	case interface {
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	}:
		return c.ForEachMaster(ctx, each)
	case interface {
		ForEachShard(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
	}:
		return c.ForEachShard(ctx, each)
	}
	return ask(ctx, s.client, false)
}

// recovered makes an error of a panic in the client.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the Redis client panicked: %v", p)
	}
}

// lost reports whether err tells that there may be no connection: it is no server's reply.
func lost(err error) bool { return err != nil && !fromServer(err) }
