package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
)

// sender is what the nodes of a store share.
type sender struct {
	server  *server
	timeout time.Duration
	calls   callPool
	traffic traffic
}

// traffic counts what was sent.
type traffic struct {
	calls, decisions atomic.Int64
	batches          [storestats.BatchSizes]atomic.Int64
}

// count counts a call for n decisions, from 1 to maxBatch.
func (t *traffic) count(n int) {
	t.calls.Add(1)
	t.decisions.Add(int64(n))
	t.batches[min(bits.Len(uint(n-1)), storestats.BatchSizes-1)].Add(1)
}

// send has Redis decide calls, by client if keys are in one place. If err is not nil all failed; outcomes hold the error of
// each call. Calls whose slot a server refuses are sent again only if stray is set, or if there are no others. A hook of the client that panics is a failure like others: the flight must land.
func (s *server) send(ctx context.Context, client redis.UniversalClient, calls []*call, unassigned bool) (outcomes []outcome, err error) {
	defer recovered(&err)
	now, err := s.instant()
	if err != nil {
		return nil, err
	}
	if len(calls) > 1 && s.scattered.Load() {
		return s.pipeline(ctx, calls, now, unassigned)
	}
	outcomes, err = s.together(ctx, client, calls, now, false)
	if err != nil && (len(calls) > 1 || len(calls[0].others) > 0) && crossSlot(err) {
		// The client takes a Cluster node, or the proxy of a Cluster, for a server of all keys.
		s.scattered.Store(true)
		return s.pipeline(ctx, calls, now, unassigned)
	}
	return outcomes, err
}

// instant is the instant of the injected clock as the script takes it, or "" for the server's clock.
func (s *server) instant() (string, error) {
	if s.clock == nil {
		return "", nil
	}
	micros, err := microsOf(s.clock())
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(micros, 10), nil
}

// together has calls decided by one script call. If the server refused to write some of them, and may not refuse again, or
// needs more periods of a calendar, another script call decides those. wide is that of Plan.Calendars.
func (s *server) together(ctx context.Context, client redis.UniversalClient, calls []*call, now string, wide bool) ([]outcome, error) {
	calls, places := gather(calls)
	reply, err := s.eval(ctx, client, scriptArgs(calls, now, wide))
	if err != nil {
		return nil, err
	}
	outcomes, err := readReply(reply, calls)
	if err != nil {
		return nil, err
	}
	var refused []int
	var again, lacking []*call
	for i := range outcomes {
		switch err := outcomes[i].err; {
		case err == nil:
			continue
		case errors.Is(err, errPeriods):
			lacking = append(lacking, calls[i])
		case !notExecuted(err):
			continue
		}
		refused, again = append(refused, i), append(again, calls[i])
	}
	if len(again) == 0 || len(lacking) > 0 && wide && !morePeriods(lacking, now) {
		return restored(outcomes, places), nil
	}
	// This ends: if the server refuses all of a script call, the reply is an error, so there are fewer calls each time; and
	// periods are not sent without end.
	retried, err := s.together(ctx, client, again, now, wide || len(lacking) > 0)
	for n, i := range refused {
		if outcomes[i] = (outcome{err: err}); err == nil {
			outcomes[i] = retried[n]
		}
	}
	return restored(outcomes, places), nil
}

// morePeriods has the next wide script call for calls carry more periods of calendars than the last one. It reports whether
// there are more to send.
func morePeriods(calls []*call, now string) (more bool) {
	for _, c := range calls {
		more = c.request.Plan.WidenCalendars(about(now), c.calendars) || more
		for i := range c.others {
			m := &c.others[i]
			more = m.request.Plan.WidenCalendars(about(now), m.calendars) || more
		}
	}
	return more
}

// pipeline sends calls whose keys may live on different servers: a command each, in one round trip to each server. What a
// server did not execute is sent again with what others did not, and so is what a server has lost the script for.
func (s *server) pipeline(ctx context.Context, calls []*call, now string, unassigned bool) ([]outcome, error) {
	calls, places := gather(calls)
	var runs [][]*call // a command for each
	for rest := calls; len(rest) > 0; rest = rest[len(runs[len(runs)-1]):] {
		runs = append(runs, rest[:run(rest)])
	}
	unassigned = unassigned || len(runs) == 1
	lua := s.script()
	cmds := s.exec(ctx, evalsha, lua.SHA, runs, now)
	for try := 1; try < maxAttempts; try++ {
		var again [][]*call
		var places []int
		loads := true // all lack the script
		for i, cmd := range cmds {
			err := cmd.Err()
			unloaded := redis.HasErrorPrefix(err, "NOSCRIPT")
			if unloaded || notExecuted(err) && (unassigned || !ofSlot(err)) {
				again, places, loads = append(again, runs[i]), append(places, i), loads && unloaded
			}
		}
		if len(again) == 0 {
			break
		}
		if !loads {
			s.rediscover(ctx, cmds[places[0]].Err())
			if sleep(ctx, time.Millisecond<<try); ctx.Err() != nil {
				break
			}
		}
		for i, cmd := range s.exec(ctx, eval, lua.Text, again, now) {
			cmds[places[i]] = cmd
		}
	}
	outcomes := make([]outcome, 0, len(calls))
	var failure error // of a server
	decided := false  // by a server, if only that a key or a slot can't be used
	for i, cmd := range cmds {
		for _, o := range s.completed(ctx, cmd, runs[i], now) {
			switch {
			case o.err == nil, errors.As(o.err, new(*store.StateError)), errors.Is(o.err, store.ErrApart):
				decided = true
			case ofSlot(o.err):
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
	return restored(outcomes, places), failure
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
	_, _ = pipe.Exec(ctx) // returns the error of one of the commands
	return cmds
}

// landed is the outcomes of the calls that cmd was sent for, which are alike.
func (s *server) completed(ctx context.Context, cmd sentOnce, calls []*call, now string) []outcome {
	reply, err := cmd.Val(), withoutArguments(cmd.Err())
	if err != nil {
		s.rediscover(ctx, err)
		if lacksStruct(err) || redis.HasErrorPrefix(err, compileError) { // eval explains the latter
			reply, err = s.eval(ctx, s.client, scriptArgs(calls, now, false))
		}
	}
	var outcomes []outcome
	if err == nil {
		outcomes, err = readReply(reply, calls)
	}
	if err == nil && errors.Is(outcomes[0].err, errPeriods) {
		outcomes, err = s.together(ctx, s.client, calls, now, true)
	}
	if err != nil && len(calls[0].others) > 0 && crossSlot(err) {
		err = store.ErrApart
	}
	if err != nil {
		return slices.Repeat([]outcome{{err: err}}, len(calls))
	}
	return outcomes
}

// maxAttempts bounds how often one decision is sent, after replies and errors that prove it was not executed. The store's
// timeout bounds it too.
const maxAttempts = 5

// compileError begins the reply, after "ERR ", of a server that can't compile the script.
const compileError = "Error compiling script"

var errNoCompile = errors.New("this server can't compile the script that decides: it must be Redis 6.0 or newer, Valkey or redict")

// The commands that run a script. They are made once, for making an any of a string allocates.
var eval, evalsha any = "eval", "evalsha"

// command makes a command that runs the script. It keeps args, which scriptArgs has made.
func command(ctx context.Context, name, script any, args []any) sentOnce {
	args[0], args[1] = name, script
	cmd := sentOnce{redis.NewCmd(ctx, args...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// eval has client run the script, at most once: what may have been executed is never sent again.
func (s *server) eval(ctx context.Context, client redis.UniversalClient, args []any) (any, error) {
	lua := s.script()
	name, sent := evalsha, lua.SHA
	for try := 1; ; try++ {
		cmd := command(ctx, name, sent, args)
		err := withoutArguments(client.Process(ctx, cmd))
		if err == nil {
			if s.dialed.Load() != nil {
				s.dialed.Store(nil)
			}
			return cmd.Val(), nil
		}
		s.rediscover(ctx, err)
		switch {
		case lua == script.Ordinary && lacksStruct(err):
			s.standIn.Store(true)
			lua = script.WithStruct
			name, sent = eval, lua.Text
		case redis.HasErrorPrefix(err, compileError):
			return nil, fmt.Errorf("%w: %w", errNoCompile, err)
		case try == maxAttempts || ctx.Err() != nil:
			return nil, err
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			// The server lost its script cache: EVAL runs the script and caches it again.
			name, sent = eval, lua.Text
		case !notExecuted(err):
			return nil, err
		default:
			sleep(ctx, time.Millisecond<<try)
		}
		args = slices.Clone(args) // the command before keeps its own
	}
}

// ofSlot reports whether err is about one slot of a Cluster: no server serves it, or it is on its way to another. The server
// that says so is well.
func ofSlot(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN") ||
		redis.HasErrorPrefix(err, "CLUSTERDOWN") && strings.Contains(serverText(err), "slot")
}

// rediscover makes a Cluster client ask again which node holds which slot, in the background, if a node can't be reached.
// By itself the client asks only when a node redirects it, which never happens to commands for a node that is away.
func (s *server) rediscover(ctx context.Context, err error) {
	cluster, ok := s.client.(interface{ ReloadState(ctx context.Context) })
	if ok && !fromServer(err) {
		cluster.ReloadState(ctx)
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
