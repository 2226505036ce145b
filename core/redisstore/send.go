package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"runtime"
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
// Cluster and a Ring one for each key. It sets the outcomes, and returns an error
// if no server has decided any, which the breaker then counts. A panic in a hook
// of the client is an error of all.
//
// A call whose hash slot a server refuses is sent again only if it is alone:
// others must not wait for it.
func (s *batches) send(calls []*call) (err error) {
	known := false // the outcomes
	defer func() {
		if known {
			return
		}
		for _, c := range calls {
			c.outcome = outcome{err: err}
		}
	}()
	defer recovered(&err)
	s.traffic.count(len(calls))
	now, err := s.instant()
	if err != nil {
		return err
	}
	sharded := s.sharded.Load()
	err = s.sendCommands(calls, now)
	if err != nil && !sharded && (len(calls) > 1 || len(calls[0].others) > 0) && crossSlot(err) {
		// A client for one server is connected to a node of a Cluster, or to a
		// Cluster's proxy.
		s.sharded.Store(true)
		err = s.sendCommands(calls, now)
	}
	known = true
	return err
}

// instant returns the injected clock's instant as an argument of the script, or
// "" for the server's clock.
func (s *batches) instant() (string, error) {
	if s.config.Clock == nil {
		return "", nil
	}
	micros, err := store.Instant(s.config.Clock())
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
func (s *batches) sendCommands(calls []*call, now string) error {
	sharded := s.sharded.Load()
	b := newBatch(calls, len(calls) > 1 && s.oneKey())
	alone := len(b.commands) == 1
	list := b.commands
	var ctx context.Context
	for try := 1; len(list) > 0; try++ {
		s.prepare(list, now, try > 1)
		if ctx == nil { // not earlier: the server can't help how long this process prepares
			ctx = s.contextFor(time.Now())
		}
		s.exec(ctx, list)
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
			case notExecuted(err) && (alone || !ofHashSlot(err)) && !last:
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
	return b.failure()
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
	for _, k := range cmd.keys {
		for _, c := range k.calls {
			b.calls[c.index].outcome = outcome{err: err}
		}
	}
}

// failure returns nil if a server has decided a call, or found that its key
// can't be used or that its keys are on different servers. Otherwise it returns
// the last error, of those that are not about a hash slot if there are any.
func (b *batch) failure() (failure error) {
	for _, c := range b.calls {
		err := c.outcome.err
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

// prepare makes the commands to send. A server that lacks a script gets its text
// if load is set, and caches it.
func (s *batches) prepare(list []*command, now string, load bool) {
	for _, c := range list {
		lua := s.script(c.plain)
		args := c.args(s.prefix, now)
		if args[0], args[1] = evalsha, lua.SHA; load {
			args[0], args[1] = eval, lua.Text
		}
		c.sent = sentOnce{redis.NewCmd(context.Background(), args...)}
		c.sent.SetFirstKeyPos(3)
	}
}

// exec sends commands until ctx ends, in a pipeline if there are several.
func (s *batches) exec(ctx context.Context, list []*command) {
	if s.endsWithContext && !s.late.Load() && len(list) == 1 && list[0].single() {
		process(ctx, s.client, list[0].sent)
		return
	}
	sent := make([]redis.Cmder, len(list))
	for i, c := range list {
		sent[i] = c.sent
	}
	if s.run(ctx, sent) {
		return
	}
	for _, c := range list { // what was sent is another goroutine's now
		c.sent = sentOnce{redis.NewCmd(ctx)}
		c.sent.SetErr(context.DeadlineExceeded)
	}
}

// run sends commands until ctx ends, and longer while this process is late. It
// reports whether they have ended; if not, they must not be used.
//
// Another goroutine waits for the client: nothing else bounds that wait if the
// client's commands don't end with their contexts, or lets it be longer. (A
// clone by WithTimeout ends by itself, but loses the app's hooks.)
func (s *batches) run(ctx context.Context, list []redis.Cmder) bool {
	done := make(chan struct{})
	longer := ctx
	if s, ok := ctx.(*shared); ok {
		longer = s.longer
	}
	go func() {
		defer close(done)
		process(longer, s.client, list...)
	}()
	return s.await(ctx, done)
}

// await waits for done until ctx ends, and longer while this process is late:
// then the answer may be here, and only its reader late. It reports whether the
// answer came.
func (s *batches) await(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	end := time.Now().Add((longestWait - 1) * s.timeout)
	for onTime := 0; onTime < 3 && time.Now().Before(end); onTime++ {
		late := pollNetwork()
		pause := late + usualLateness
		due := time.Now().Add(pause)
		select {
		case <-done:
			return true
		case <-time.After(pause):
		}
		if max(late, lateness(due)) > usualLateness {
			onTime = -1
		}
	}
	return false
}

// pollNetwork waits until a goroutine of this process has read what comes from
// the network now, and returns how long that took. What came earlier has been
// read then, or its reader is about to run.
func pollNetwork() time.Duration {
	began := time.Now()
	read, write, err := os.Pipe()
	if err != nil {
		return 0
	}
	defer read.Close()
	go func() {
		runtime.Gosched() // until somebody reads
		_ = write.Close()
	}()
	_, _ = read.Read(make([]byte, 1))
	return time.Since(began)
}

// process sends commands by client, in a pipeline if there are several. Each has
// its own error then, also if a hook of the client has panicked.
func process(ctx context.Context, client redis.UniversalClient, list ...redis.Cmder) {
	var err error
	defer func() {
		for _, cmd := range list {
			if err != nil && cmd.Err() == nil {
				cmd.SetErr(err)
			}
		}
	}()
	defer recovered(&err)
	if len(list) == 1 {
		err = client.Process(ctx, list[0])
		return
	}
	pipe := client.Pipeline()
	for _, cmd := range list {
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
