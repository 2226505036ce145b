package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// traffic counts the batches that were sent, and the decisions in them. A batch
// sent as a pipeline counts once.
type traffic struct {
	calls, decisions atomic.Int64
	batches          [storestats.BatchSizes]atomic.Int64
}

// count counts a batch of n decisions, from 1 to maxBatch.
func (t *traffic) count(n int) {
	t.calls.Add(1)
	t.decisions.Add(int64(n))
	t.batches[min(bits.Len(uint(n-1)), storestats.BatchSizes-1)].Add(1)
}

// send has Redis decide calls, by one command or a pipeline of several: on a
// Cluster and a Ring one for each key. It returns outcomes; and an error if no
// server has decided any, which the breaker then counts. A panic in a hook of
// the client is an error of all.
//
// A call whose hash slot a server refuses is sent again only if unassigned is
// set, or if it is the only one: others must not wait for it.
func (s *server) send(ctx context.Context, calls []*call, unassigned bool) (outcomes []outcome, err error) {
	defer recovered(&err)
	now, err := s.instant()
	if err != nil {
		return nil, err
	}
	sharded := s.sharded.Load()
	outcomes, err = s.sendCommands(ctx, calls, now, unassigned)
	if err != nil && !sharded && (len(calls) > 1 || len(calls[0].others) > 0) && crossSlot(err) {
		// A client for one server is connected to a node of a Cluster, or to a
		// Cluster's proxy.
		s.sharded.Store(true)
		return s.sendCommands(ctx, calls, now, unassigned)
	}
	return outcomes, err
}

// instant returns the injected clock's instant as an argument of the script, or
// "" for the server's clock.
func (s *server) instant() (string, error) {
	if s.clock == nil {
		return "", nil
	}
	micros, err := store.Instant(s.clock())
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(micros, 10), nil
}

// maxAttempts bounds how often a command is sent: once, and again only after
// errors that prove that it was not executed, within the store's timeout. So a
// request is charged at most once.
const maxAttempts = 5

// sendCommands sends calls, and those again that were not executed. unassigned
// is that of send.
func (s *server) sendCommands(ctx context.Context, calls []*call, now string, unassigned bool) ([]outcome, error) {
	sharded := s.sharded.Load()
	b := newBatch(calls, sharded)
	unassigned = unassigned || len(b.commands) == 1
	list := b.commands
	for try := 1; len(list) > 0; try++ {
		s.exec(ctx, list, now, try > 1)
		var again []*command
		pause := false
		for _, cmd := range list {
			err := withoutArguments(cmd.sent.Err())
			if err == nil {
				err = b.read(cmd, cmd.sent.Val())
			}
			last := try == maxAttempts || ctx.Err() != nil
			switch {
			case err == nil:
				if refused := b.refused(cmd); refused != nil && !last {
					again, pause = append(again, refused), true
				}
			case lacksStruct(err) && !last:
				s.noStruct.Store(true)
				again = append(again, cmd)
			case redis.HasErrorPrefix(err, "NOSCRIPT") && !last:
				again = append(again, cmd)
			case notExecuted(err) && (unassigned || !ofHashSlot(err)) && !last:
				again, pause = append(again, cmd), true
				s.rediscover(ctx, err)
			default:
				s.rediscover(ctx, err)
				b.fail(cmd, err, sharded)
			}
		}
		if list = again; pause {
			sleep(ctx, time.Millisecond<<try)
		}
	}
	return b.outcomes, b.failure()
}

// fail notes why the calls of a command have no answer.
func (b *batch) fail(cmd *command, err error, sharded bool) {
	if bad := unusable(serverText(err)); bad != nil {
		err = bad
	}
	switch {
	case redis.HasErrorPrefix(err, compileError):
		err = fmt.Errorf("%w: %w", errNoCompile, err)
	case sharded && crossSlot(err):
		err = store.ErrApart
	}
	for k := range cmd.keys {
		for i := range b.indexes(&cmd.keys[k]) {
			b.outcomes[i] = outcome{err: err}
		}
	}
}

// failure returns nil if a server has decided a call, or found that its key
// can't be used or that its keys are on different servers. Otherwise it returns
// the last error, of those that are not about a hash slot if there are any.
func (b *batch) failure() (failure error) {
	for i := range b.outcomes {
		err := b.outcomes[i].err
		switch {
		case err == nil, errors.As(err, new(*store.StateError)), errors.Is(err, store.ErrApart):
			return nil
		case failure == nil || !ofHashSlot(err):
			failure = err
		}
	}
	return failure
}

// The commands that run a script, as values of type any, because a conversion
// for each call would allocate.
var eval, evalsha any = "eval", "evalsha"

// exec sends commands, in a pipeline if there are several. A server that lacks a
// script gets its text if load is set, and caches it.
func (s *server) exec(ctx context.Context, list []*command, now string, load bool) {
	for _, c := range list {
		lua := s.script(c.plain)
		args := c.args(s.prefix, now)
		if args[0], args[1] = evalsha, lua.SHA; load {
			args[0], args[1] = eval, lua.Text
		}
		c.sent = sentOnce{redis.NewCmd(ctx, args...)}
		c.sent.SetFirstKeyPos(3)
	}
	if len(list) == 1 {
		sent := list[0].sent
		err := s.client.Process(ctx, sent)
		if !lost(err) && s.dialError.Load() != nil {
			s.dialError.Store(nil)
		}
		if err != nil && sent.Err() == nil {
			sent.SetErr(err)
		}
		return
	}
	pipe := s.client.Pipeline()
	for _, c := range list {
		_ = pipe.Process(ctx, c.sent) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
