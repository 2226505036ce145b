package redisstore

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/script"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// command is one EVALSHA of a batch: of the full script for one call, or of the
// plain script for calls that take the same number of tokens under the same
// limits. Calls for one key are one of its keys, with a count.
type command struct {
	call  *call // the first
	plain bool
	keys  []keyed
	sent  sentOnce // as it was sent last
}

// keyed is the calls of a command for one key.
type keyed struct {
	key   string
	times int64
	calls []place
}

// place is where a call stands in its batch.
type place struct {
	hash  uint64 // of the call's key
	index int
}

// batch is the commands that decide calls.
type batch struct {
	calls    []*call
	commands []*command
}

// single is a batch of one call, in the memory of that.
type single struct {
	batch

	command command
	list    [1]*command
	key     [1]keyed
	place   [1]place
}

// seed makes the hashes of keys those of this process.
var seed = maphash.MakeSeed()

// newBatch returns the commands for calls. oneKey says that the keys of a
// command may be on different servers, so that each has one key.
//
// Example: three calls for key a and one for key b, of one token each, are one
// command with the keys a, three times, and b.
func newBatch(calls []*call, oneKey bool) *batch {
	if len(calls) == 1 {
		s := &calls[0].alone
		*s = single{} // an earlier attempt may have used it
		s.command.keys = s.key[:0]
		s.batch = batch{calls: calls, commands: s.list[:0]}
		s.add(&s.command, s.place[:])
		return &s.batch
	}
	b := &batch{calls: calls}
	places := make([]place, len(calls))
	for i, c := range calls {
		places[i] = place{maphash.String(seed, c.key), i}
	}
	slices.SortFunc(places, func(x, y place) int { // so calls for one key follow each other, in their order
		switch {
		case x.hash < y.hash:
			return -1
		case x.hash > y.hash:
			return 1
		}
		return x.index - y.index
	})
	for n := 0; len(places) > 0; places = places[n:] {
		n = 1
		first := calls[places[0].index]
		into := b.openFor(first, oneKey)
		if into == nil {
			into = new(command)
			if !oneKey {
				into.keys = make([]keyed, 0, len(places))
			}
		}
		for n < len(places) && first.countsWith(calls[places[n].index]) {
			n++
		}
		b.add(into, places[:n])
	}
	return b
}

// openFor returns the last command of b that may take c, or nil. A key is once
// in a command.
func (b *batch) openFor(c *call, oneKey bool) *command {
	for i := len(b.commands) - 1; i >= 0 && !oneKey && c.joins(); i-- {
		cmd := b.commands[i]
		if cmd.takes(c) {
			if cmd.keys[len(cmd.keys)-1].key == c.key {
				return nil
			}
			return cmd
		}
	}
	return nil
}

// joins reports whether c may share a command with others.
func (c *call) joins() bool {
	return c.plain() && c.request.Action == bucket.Take && c.request.Each == nil
}

// countsWith reports whether one key and a count stand for c and next. If each
// takes one token, the script tells when there is one again.
func (c *call) countsWith(next *call) bool {
	r, other := &c.request, &next.request
	return c.key == next.key && c.joins() && next.joins() && r.Set == other.Set &&
		r.N == 1 && other.N == 1 && r.Most() == 1 && other.Most() == 1
}

// takes reports whether c is a call like those of a command.
func (cmd *command) takes(c *call) bool {
	r, first := &c.request, &cmd.call.request
	return cmd.plain && first.Set == r.Set && first.N == r.N && first.Action == r.Action && first.Each == nil
}

// add adds calls for one key to a command, under a key of its own.
func (b *batch) add(cmd *command, calls []place) {
	c := b.calls[calls[0].index]
	if len(cmd.keys) == 0 {
		cmd.call, cmd.plain = c, c.plain()
		b.commands = append(b.commands, cmd)
	}
	times := c.request.Most()
	if len(calls) > 1 {
		times = int64(len(calls))
	}
	cmd.keys = append(cmd.keys, keyed{key: c.key, times: times, calls: calls})
}

// first is the index of the first call for a key.
func (k *keyed) first() int { return k.calls[0].index }

// single reports whether a command decides one call.
func (cmd *command) single() bool { return len(cmd.keys) == 1 && len(cmd.keys[0].calls) == 1 }

// args returns the arguments of a command, but for the first two: the name of
// the command and the script. now is "" for the server's clock.
func (cmd *command) args(prefix, now string) []any {
	first := cmd.call
	if cmd.plain {
		args := make([]any, 3, 4+len(cmd.keys))
		args[2] = len(cmd.keys)
		var times []int64 // nil: once each
		for i := range cmd.keys {
			args = append(args, cmd.keys[i].key)
			if cmd.keys[i].times != 1 && times == nil {
				times = make([]int64, len(cmd.keys))
			}
		}
		for i := range times {
			times[i] = cmd.keys[i].times
		}
		return script.AppendPlainArgs(args, &first.request.Request, times, now)
	}
	n := 1 + len(first.others)
	args := make([]any, 3, 3+3*n)
	args[2] = 2 * n
	for m := range first.members() {
		args = append(args, m.key, holdsKey(prefix, m.key))
	}
	at := approxNow(now)
	for m := range first.members() {
		args = append(args, script.FullArg(&m.request.Request, at))
	}
	if now != "" {
		args = append(args, now)
	}
	return args
}

// approxNow returns now in µs since 1970. If now is "", it returns the time of
// this process instead of the server's.
func approxNow(now string) int64 {
	if now == "" {
		return time.Now().UnixMicro()
	}
	at, _ := strconv.ParseInt(now, 10, 64)
	return at
}

// read sets the outcomes of the calls of a command, from the reply to it.
func (b *batch) read(cmd *command, reply any) error {
	text, ok := reply.(string)
	var failures []any // of keys, in their order
	if parts, several := reply.([]any); several && len(parts) > 0 {
		text, ok = parts[0].(string)
		failures = parts[1:]
	}
	if !ok {
		return fmt.Errorf("unexpected reply of the script: %T", reply)
	}
	answers := script.Reply(text)
	if !cmd.plain {
		return readFull(&answers, cmd.call)
	}
	for k := range cmd.keys {
		k := &cmd.keys[k]
		first := b.calls[k.first()]
		first.outcome = outcome{} // an earlier attempt may have set an error
		err := answers.Plain(&first.request.Request, &first.outcome.answer)
		switch {
		case errors.Is(err, script.ErrFailed):
			text := ""
			if len(failures) > 0 {
				text, _ = failures[0].(string)
				failures = failures[1:]
			}
			for _, c := range k.calls {
				b.calls[c.index].outcome = outcome{err: keyError(text)}
			}
		case err != nil:
			return err
		case len(k.calls) > 1:
			b.share(k, first.outcome.answer)
		}
	}
	return nil
}

// refused returns the command for those keys that the server has refused to
// write, as a replica does; nil: there are none.
func (b *batch) refused(cmd *command) *command {
	var again *command
	for _, k := range cmd.keys {
		first := b.calls[k.first()]
		if err := first.outcome.err; err != nil && notExecuted(err) {
			if again == nil {
				again = &command{call: first, plain: true}
			}
			again.keys = append(again.keys, k)
		}
	}
	return again
}

// share gives each of the calls for a key its answer: the first ones are
// granted, and have left what the later ones took.
func (b *batch) share(k *keyed, a store.Answer) {
	later := a.Granted
	for _, c := range k.calls {
		r, o := &b.calls[c.index].request, &b.calls[c.index].outcome
		later--
		o.answer, o.err = a, nil // an earlier attempt may have set an error
		own := &o.answer
		own.Levels.Unshare()
		if own.Granted = 0; later < 0 {
			for j := range r.Set.Rates { // a.Ready is about a token of each limit
				if r.Of(j) == 0 {
					own.Levels.At(j).Ready = 0
				}
			}
		} else {
			own.Granted = 1
			for j := range r.Set.Rates {
				l, unit := own.Levels.At(j), r.Set.Rates[j].Unit
				if l.Units += later * r.Of(j) * unit; l.Units >= unit {
					l.Ready = 0
				}
			}
		}
		own.Decided(&r.Request)
	}
}

// readFull reads the answers to the requests of one call. Of a joint
// decision that is denied, each says whether its own bucket has the tokens.
func readFull(answers *script.Reply, c *call) error {
	c.outcome = outcome{} // an earlier attempt may have set an error
	o := &c.outcome
	if err := answers.Full(&c.request.Request, &o.answer); err != nil || c.others == nil {
		return err
	}
	o.joint = append(make([]store.Answer, 0, 1+len(c.others)), o.answer)
	for i := range c.others {
		var a store.Answer
		if err := answers.Full(&c.others[i].request.Request, &a); err != nil {
			return err
		}
		o.joint = append(o.joint, a)
	}
	if i := 0; o.answer.Granted == 0 {
		for m := range c.members() {
			o.joint[i].Found(&m.request.Request)
			i++
		}
	}
	return nil
}

// maxBatch is the largest weight of a batch. A call of weight 1 takes the
// server about 2 µs, so a batch blocks the server for about 1 ms.
const maxBatch = 512

// slowWeight is the weight of a request that the full script decides.
const slowWeight = 16

// plain reports whether the plain script decides c.
func (c *call) plain() bool { return c.others == nil && c.request.Plain() }

// weight is the server's work on c: 1 for the plain script, about 2 µs.
// Example: a joint decision of three requests has the weight 3 × 16 = 48.
func (c *call) weight() int {
	if c.plain() {
		return 1
	}
	return slowWeight * (1 + len(c.others))
}

// batchOf returns how many of calls form the next batch: as many as maxBatch
// allows, and at least one.
func batchOf(calls []*call) (n int) {
	n, weight := 1, calls[0].weight()
	for n < len(calls) && weight+calls[n].weight() <= maxBatch {
		weight += calls[n].weight()
		n++
	}
	return n
}
