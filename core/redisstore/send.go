package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
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

// send has Redis decide calls: by one script call, or on a Cluster and a Ring
// by a pipeline. It returns outcomes, or an error of all calls; or both, if no
// server has decided any: the breaker then counts the error. A panic in a hook
// of the client is an error.
//
// A call whose hash slot a server refuses is sent again only if unassigned is
// set, or if it is the only one: others must not wait for it.
func (s *server) send(ctx context.Context, calls []*call, unassigned bool) (outcomes []outcome, err error) {
	defer recovered(&err)
	now, err := s.instant()
	if err != nil {
		return nil, err
	}
	if len(calls) > 1 && s.sharded.Load() {
		return s.pipeline(ctx, calls, now, unassigned)
	}
	outcomes, err = s.scriptCall(ctx, calls, now, false)
	if err != nil && (len(calls) > 1 || len(calls[0].others) > 0) && crossSlot(err) {
		// A client for one server is connected to a node of a Cluster, or to a
		// Cluster's proxy.
		s.sharded.Store(true)
		return s.pipeline(ctx, calls, now, unassigned)
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

// scriptCall has one script call decide calls, and another one those that it
// did not execute and may: the server refused them, or they need more periods of
// a calendar. wide is that of bucket.LimitSet.Calendars.
func (s *server) scriptCall(ctx context.Context, calls []*call, now string, wide bool) ([]outcome, error) {
	calls, places := groupAlike(calls)
	reply, err := s.eval(ctx, scriptArgs(calls, now, wide))
	if err != nil {
		return nil, err
	}
	outcomes, err := readReply(reply, calls)
	if err != nil {
		return nil, err
	}
	var which []int            // the indexes of again
	var again, lacking []*call // to be sent again, and those of them that need more periods
	for i := range outcomes {
		switch err := outcomes[i].err; {
		case err == nil:
			continue
		case errors.Is(err, errPeriods):
			lacking = append(lacking, calls[i])
		case !notExecuted(err):
			continue
		}
		which, again = append(which, i), append(again, calls[i])
	}
	if len(again) == 0 || len(lacking) > 0 && wide && !morePeriods(lacking, now) {
		return ungroup(outcomes, places), nil
	}
	// The recursion ends: if the server refuses all calls, the reply is an
	// error, so fewer calls are sent each time; and there are only so many
	// periods.
	retried, err := s.scriptCall(ctx, again, now, wide || len(lacking) > 0)
	for n, i := range which {
		if outcomes[i] = (outcome{err: err}); err == nil {
			outcomes[i] = retried[n]
		}
	}
	return ungroup(outcomes, places), nil
}

// morePeriods has the next wide script call for calls send more periods of
// their calendars, and reports whether there are more.
func morePeriods(calls []*call, now string) (more bool) {
	for _, c := range calls {
		for m := range c.members() {
			more = m.request.Set.WidenCalendars(approxNow(now), m.calendars) || more
		}
	}
	return more
}

// pipeline sends calls whose keys may be on different servers: a command for
// each run of alike calls, in one round trip to each server. It sends those
// again that were not executed. unassigned is that of send.
func (s *server) pipeline(ctx context.Context, calls []*call, now string, unassigned bool) ([]outcome, error) {
	calls, places := groupAlike(calls)
	var runs [][]*call
	for rest := calls; len(rest) > 0; rest = rest[len(runs[len(runs)-1]):] {
		runs = append(runs, rest[:run(rest)])
	}
	unassigned = unassigned || len(runs) == 1
	lua := s.script()
	cmds := s.exec(ctx, evalsha, lua.SHA, runs, now)
	for try := 1; try < maxAttempts; try++ {
		var again [][]*call
		var which []int // the indexes of again
		loads := true   // all of them failed because the server lacks the script, so there is no reason to wait
		for i, cmd := range cmds {
			err := cmd.Err()
			unloaded := redis.HasErrorPrefix(err, "NOSCRIPT")
			if unloaded || notExecuted(err) && (unassigned || !ofHashSlot(err)) {
				again, which, loads = append(again, runs[i]), append(which, i), loads && unloaded
			}
		}
		if len(again) == 0 {
			break
		}
		if !loads {
			s.rediscover(ctx, cmds[which[0]].Err())
			if sleep(ctx, time.Millisecond<<try); ctx.Err() != nil {
				break
			}
		}
		for i, cmd := range s.exec(ctx, eval, lua.Text, again, now) {
			cmds[which[i]] = cmd
		}
	}
	outcomes, err := s.readCommands(ctx, cmds, runs, now, len(calls))
	return ungroup(outcomes, places), err
}

// readCommands returns the outcomes of the n calls in runs, for which cmds were
// sent. If no server has decided any, it also returns the error that the
// breaker counts: the last one that is not about a hash slot, if there is any.
func (s *server) readCommands(ctx context.Context, cmds []sentOnce, runs [][]*call, now string, n int) ([]outcome, error) {
	outcomes := make([]outcome, 0, n)
	var failure error
	decided := false // a server has decided a call, or found that its key can't be used
	for i, cmd := range cmds {
		for _, o := range s.readCommand(ctx, cmd, runs[i], now) {
			switch {
			case o.err == nil, errors.As(o.err, new(*store.StateError)), errors.Is(o.err, store.ErrApart):
				decided = true
			case ofHashSlot(o.err):
				if failure == nil {
					failure = o.err
				}
			default:
				failure = o.err
			}
			outcomes = append(outcomes, o)
		}
	}
	if decided {
		failure = nil
	}
	return outcomes, failure
}

// exec sends one command for each of runs, in a pipeline.
func (s *server) exec(ctx context.Context, name, script any, runs [][]*call, now string) []sentOnce {
	if len(runs) == 0 {
		return nil
	}
	pipe := s.client.Pipeline()
	cmds := make([]sentOnce, len(runs))
	for i := range runs {
		cmds[i] = command(ctx, name, script, scriptArgs(runs[i], now, false))
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	return cmds
}

// readCommand returns the outcomes of calls, which are alike and for which cmd
// was sent. It sends them again if that helps.
func (s *server) readCommand(ctx context.Context, cmd sentOnce, calls []*call, now string) []outcome {
	reply, err := cmd.Val(), withoutArguments(cmd.Err())
	if err != nil {
		s.rediscover(ctx, err)
		if lacksStruct(err) || redis.HasErrorPrefix(err, compileError) { // eval has an error that explains the latter
			reply, err = s.eval(ctx, scriptArgs(calls, now, false))
		}
	}
	var outcomes []outcome
	if err == nil {
		outcomes, err = readReply(reply, calls)
	}
	if err == nil && errors.Is(outcomes[0].err, errPeriods) {
		outcomes, err = s.scriptCall(ctx, calls, now, true)
	}
	if err != nil && len(calls[0].others) > 0 && crossSlot(err) {
		err = store.ErrApart
	}
	if err != nil {
		return failed(len(calls), err)
	}
	return outcomes
}

// maxAttempts bounds how often a command is sent: once, and again only after
// errors that prove that it was not executed, within the store's timeout.
const maxAttempts = 5

// The commands that run a script, as values of type any, because a conversion
// for each call would allocate.
var eval, evalsha any = "eval", "evalsha"

// command returns the command name, eval or evalsha, that runs script, its text
// or SHA. It keeps args, which scriptArgs made.
func command(ctx context.Context, name, script any, args []any) sentOnce {
	args[0], args[1] = name, script
	cmd := sentOnce{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// eval runs the script with args and returns its reply. It sends the command
// again only after errors that prove that it was not executed, so a request is
// charged at most once.
func (s *server) eval(ctx context.Context, args []any) (any, error) {
	lua := s.script()
	name, sent := evalsha, lua.SHA
	for try := 1; ; try++ {
		cmd := command(ctx, name, sent, args)
		err := withoutArguments(s.client.Process(ctx, cmd))
		if !lost(err) && s.dialError.Load() != nil {
			s.dialError.Store(nil)
		}
		if err == nil {
			return cmd.Val(), nil
		}
		s.rediscover(ctx, err)
		switch {
		case lua == script.Ordinary() && lacksStruct(err):
			s.noStruct.Store(true)
			lua = script.WithStruct()
			name, sent = eval, lua.Text
		case redis.HasErrorPrefix(err, compileError):
			return nil, fmt.Errorf("%w: %w", errNoCompile, err)
		case try == maxAttempts || ctx.Err() != nil:
			return nil, err
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			// The server lacks the script, or has lost it: EVAL runs the script
			// and caches it.
			name, sent = eval, lua.Text
		case !notExecuted(err):
			return nil, err
		default:
			sleep(ctx, time.Millisecond<<try)
		}
		args = slices.Clone(args) // the command that failed keeps args
	}
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
