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
// A call whose hash slot a server refuses is sent again only if it is alone:
// others must not wait for it.
func (s *server) send(ctx context.Context, calls []*call) (outcomes []outcome, err error) {
	defer recovered(&err)
	s.traffic.count(len(calls))
	now, err := s.instant()
	if err != nil {
		return nil, err
	}
	sharded := s.sharded.Load()
	outcomes, err = s.sendCommands(ctx, calls, now)
	if err != nil && !sharded && (len(calls) > 1 || len(calls[0].others) > 0) && crossSlot(err) {
		// A client for one server is connected to a node of a Cluster, or to a
		// Cluster's proxy.
		s.sharded.Store(true)
		return s.sendCommands(ctx, calls, now)
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

// sendCommands sends calls, and those again that were not executed.
func (s *server) sendCommands(ctx context.Context, calls []*call, now string) ([]outcome, error) {
	b := newBatch(calls, s.sharded.Load())
	alone := len(b.commands) == 1
	results := results{batch: b, outcomes: make([]outcome, len(calls))}
	list := b.commands
	for try := 1; len(list) > 0; try++ {
		cmds := s.exec(ctx, list, now, try > 1)
		var again []*command
		pause := false
		for i, cmd := range list {
			err := withoutArguments(cmds[i].Err())
			if err == nil {
				err = b.read(cmd, cmds[i].Val(), results.set)
			}
			last := try == maxAttempts || ctx.Err() != nil
			switch {
			case err == nil:
				if refused := b.refused(cmd, results.outcomes); refused != nil && !last {
					again, pause = append(again, refused), true
				}
			case lacksStruct(err) && !last:
				s.noStruct.Store(true)
				again = append(again, cmd)
			case redis.HasErrorPrefix(err, "NOSCRIPT") && !last:
				again = append(again, cmd)
			case notExecuted(err) && (alone || !ofHashSlot(err)) && !last:
				again, pause = append(again, cmd), true
				s.rediscover(ctx, err)
			default:
				s.rediscover(ctx, err)
				results.fail(cmd, err, s.sharded.Load())
			}
		}
		if list = again; pause {
			sleep(ctx, time.Millisecond<<try)
		}
	}
	if results.decided {
		return results.outcomes, nil
	}
	return results.outcomes, results.failure
}

// results are the outcomes of the calls of a batch.
type results struct {
	*batch

	outcomes []outcome
	decided  bool  // a server has decided a call, or found that its key can't be used
	failure  error // the last one that is not about a hash slot, if there is any
}

func (r *results) set(i int, o outcome) {
	r.outcomes[i] = o
	if o.err == nil || errors.As(o.err, new(*store.StateError)) {
		r.decided = true
	} else if r.failure == nil || !ofHashSlot(o.err) {
		r.failure = o.err
	}
}

// fail notes why the calls of a command have no answer.
func (r *results) fail(cmd *command, err error, sharded bool) {
	if bad := unusable(serverText(err)); bad != nil {
		err = bad
	}
	switch {
	case redis.HasErrorPrefix(err, compileError):
		err = fmt.Errorf("%w: %w", errNoCompile, err)
	case sharded && crossSlot(err):
		err, r.decided = store.ErrApart, true
	}
	r.of(cmd, func(i int) { r.set(i, outcome{err: err}) })
}

// The commands that run a script, as values of type any, because a conversion
// for each call would allocate.
var eval, evalsha any = "eval", "evalsha"

// exec sends commands, in a pipeline if there are several. A server that lacks a
// script gets its text if load is set, and caches it.
func (s *server) exec(ctx context.Context, list []*command, now string, load bool) []sentOnce {
	cmds := make([]sentOnce, len(list))
	for i, c := range list {
		lua := s.script(c.plain)
		args := c.args(s.prefix, now)
		if args[0], args[1] = evalsha, lua.SHA; load {
			args[0], args[1] = eval, lua.Text
		}
		cmds[i] = sentOnce{redis.NewCmd(ctx, args...)}
		cmds[i].SetFirstKeyPos(3)
	}
	if s.endsWithContext && s.late.Load() == 0 && len(list) == 1 && list[0].single() {
		process(ctx, s.client, cmds)
		return cmds
	}
	// Another goroutine waits for the client, because nothing else bounds that
	// wait and lets it be longer while this process is late. (A clone by
	// WithTimeout ends by itself, but loses the hooks.)
	done := make(chan struct{})
	go func() {
		defer close(done)
		process(longer(ctx), s.client, cmds)
	}()
	if s.await(ctx, done) {
		return cmds
	}
	late := make([]sentOnce, len(cmds)) // the commands are that goroutine's now
	for i := range late {
		late[i] = sentOnce{redis.NewCmd(ctx)}
		late[i].SetErr(context.DeadlineExceeded)
	}
	return late
}

// await waits for done until ctx ends, and longer while this process is late:
// then the answer may be here, and only its reader late. It reports whether the
// answer came.
func (s *server) await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	end := time.Now().Add((longestWait - 1) * s.timeout)
	for onTime, pause := 0, usualLateness; onTime < 3 && time.Now().Before(end); {
		due := time.Now().Add(pause)
		select {
		case <-done:
			return true
		case <-time.After(pause):
		}
		if s.noteLateness(due) > 0 {
			onTime, pause = 0, networkPoll
		} else {
			onTime, pause = onTime+1, usualLateness
		}
	}
	return false
}

// process sends commands by client. Each has its own error then, also if a hook
// of the client has panicked.
func process(ctx context.Context, client redis.UniversalClient, cmds []sentOnce) {
	var err error
	defer func() {
		for _, cmd := range cmds {
			if err != nil && cmd.Err() == nil {
				cmd.SetErr(err)
			}
		}
	}()
	defer recovered(&err)
	if len(cmds) == 1 {
		err = client.Process(ctx, cmds[0])
		return
	}
	pipe := client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues it
	}
	_, _ = pipe.Exec(ctx)
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
