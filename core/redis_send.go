package core

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// send has Redis decide calls. The error is one of the whole; each call may have its own besides.
func (s *RedisStore) send(ctx context.Context, calls []*call) ([]outcome, error) {
	now := ""
	if s.clock != nil {
		at := s.clock()
		if micros := at.UnixMicro(); micros < 0 || micros > latest {
			return nil, fmt.Errorf("%w: %v is not between 1970 and 2112", ErrClock, at)
		}
		now = strconv.FormatInt(at.UnixMicro(), 10)
	}
	if len(calls) > 1 && s.scattered.Load() {
		return s.pipeline(ctx, calls, now)
	}
	reply, err := s.eval(ctx, scriptArgs(calls, now))
	if err != nil && len(calls) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT") {
		// Not the server of all keys that its client takes it for. It executed nothing.
		s.scattered.Store(true)
		return s.pipeline(ctx, calls, now)
	}
	if err != nil {
		return nil, err
	}
	return readReply(reply, calls)
}

// pipeline sends calls whose keys may live on different servers: a command each, in one round trip to
// each server.
func (s *RedisStore) pipeline(ctx context.Context, calls []*call, now string) ([]outcome, error) {
	pipe := s.client.Pipeline()
	cmds := make([]charge, len(calls))
	for i := range calls {
		cmds[i] = command(ctx, "evalsha", scriptSHA, scriptArgs(calls[i:i+1], now))
		_ = pipe.Process(ctx, cmds[i]) // queues it
	}
	_, _ = pipe.Exec(ctx) // its error is that of a command
	outcomes := make([]outcome, len(calls))
	failed := 0
	var last error
	for i, cmd := range cmds {
		reply, err := cmd.Val(), cmd.Err()
		if err != nil {
			s.rediscover(ctx, err)
			if redis.HasErrorPrefix(err, "NOSCRIPT") || notExecuted(err) {
				reply, err = s.eval(ctx, scriptArgs(calls[i:i+1], now))
			}
		}
		if err == nil {
			var one []outcome
			if one, err = readReply(reply, calls[i:i+1]); err == nil {
				outcomes[i] = one[0]
				continue
			}
		}
		outcomes[i].err, last = err, err
		failed++
	}
	if failed == len(calls) {
		return nil, last
	}
	return outcomes, nil
}

// scriptArgs are the arguments of script.lua for calls, from the number of keys on.
func scriptArgs(calls []*call, now string) []any {
	args := make([]any, 1, 4+len(calls))
	args[0] = len(calls)
	requests := make([]byte, 0, requestSize*len(calls))
	var plans []*plan
	for _, c := range calls {
		args = append(args, c.key)
		list := slices.Index(plans, c.request.plan)
		if list < 0 {
			list = len(plans)
			plans = append(plans, c.request.plan)
		}
		requests = c.request.appendPacked(requests, list)
	}
	args = append(args, now, requests)
	for _, p := range plans {
		args = append(args, p.packed)
	}
	return args
}
