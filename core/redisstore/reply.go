package redisstore

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// This file reads the script's reply. internal/script/script.lua has its
// format.

var (
	errReply = errors.New("unexpected reply of the script")
	// errPeriods is the error of a call that needs more periods of a calendar
	// than were sent. server.scriptCall sends it again with more; if there are
	// no more, callers see this error.
	errPeriods = errors.New("the server's clock is too far from this process's to tell which period of the calendar it is")
)

// readReply reads the script's reply to calls. If all are alike and allowed,
// the reply is what was written: the level of one limit, or the records of
// several. Otherwise it is the instant of the decision, and then the answer to
// each run of alike calls.
func readReply(reply any, calls []*call) ([]outcome, error) {
	text, _ := reply.(string)
	outcomes := make([]outcome, len(calls))
	if isWritten(text, calls[0].request.Set) && run(calls) == len(calls) && calls[0].others == nil {
		return outcomes, readLevels(text, calls, len(calls), nil, outcomes)
	}
	var err error
	r := reader{text: text}
	now := double(r.take(8))
	for i := 0; i < len(calls) && err == nil; {
		times := run(calls[i:])
		if err = r.run(calls[i:i+times], now, outcomes[i:]); err == nil && calls[i].others != nil {
			err = r.joint(calls[i], now, &outcomes[i])
		}
		i += times
	}
	if r.short {
		err = fmt.Errorf("%w: %T of %d bytes", errReply, reply, len(text))
	}
	return outcomes, err
}

// isWritten reports whether a reply is what was written under p, which does not
// begin as an instant does: a level's units are a small number, and a record's
// definition is one of p.
func isWritten(text string, p *bucket.LimitSet) bool {
	if len(p.Rates) == 1 {
		return len(text) == bucket.LevelSize && text[0] < 2*bucket.ZeroUnits>>48
	}
	return len(text) == bucket.RecordSize*len(p.Rates) && text[:bucket.DefinitionSize] == p.Packed[:bucket.DefinitionSize]
}

// readLevels sets the outcomes of calls that are alike. The first of them were
// allowed, and text has the levels after the last of these, or the records,
// which end with them. now is the instant of the decision; nil: that of the
// levels.
//
// Each call's answer has the level right after that call. Example: three calls
// take 2 tokens each, and the levels say 4 left. Their answers say 8, 6 and 4
// left.
func readLevels(text string, calls []*call, allowed int, now *int64, outcomes []outcome) error {
	r := &calls[0].request
	for i := range calls {
		outcomes[i].answer.Levels.Grow(len(r.Set.Rates))
	}
	size := len(text) / len(r.Set.Rates)
	for j := range r.Set.Rates {
		rate := &r.Set.Rates[j]
		level, at, err := rate.ParseLevel(text[size*(j+1)-bucket.LevelSize : size*(j+1)])
		if err != nil {
			return fmt.Errorf("%w: %w", errReply, err)
		}
		if now == nil {
			now = &at
		}
		for i := range calls {
			a, later := &outcomes[i].answer, int64(max(0, allowed-1-i)) // how many calls were allowed after this one
			a.Allowed, a.Now = i < allowed, *now
			*a.Levels.At(j) = bucket.Level{Units: level.Units + later*r.N*rate.Unit, At: level.At}
		}
	}
	return nil
}

// reader reads a text from its front. text is the rest.
type reader struct {
	text  string
	short bool // the text had less than was read
}

// take returns the next n bytes, or zeros if there are not so many.
func (r *reader) take(n int) string {
	if r.short = r.short || len(r.text) < n; r.short {
		return strings.Repeat("\x00", n)
	}
	taken := r.text[:n]
	r.text = r.text[n:]
	return taken
}

// run reads the answer to calls that are alike: one for all, or one for each.
// One for all is timesSign, how many calls are allowed, which are the first
// ones, and the levels after the last of these.
func (r *reader) run(calls []*call, now int64, outcomes []outcome) error {
	if len(calls) > 1 && strings.HasPrefix(r.text, string(timesSign)) {
		r.take(1)
		allowed := int(bigEndian(r.take(2)))
		levels := r.take(bucket.LevelSize * len(calls[0].request.Set.Rates))
		if allowed > len(calls) {
			return fmt.Errorf("%w: %d of %d are allowed", errReply, allowed, len(calls))
		}
		return readLevels(levels, calls, allowed, &now, outcomes)
	}
	for i, c := range calls {
		if err := r.answer(&c.request.Request, now, &outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

// joint completes o, the outcome of c's first request, with the answers to c's
// others. A key that can't be used is an error of its own request only. Any
// other error, such as of a write that the server refuses, is one of the whole
// call, which may succeed if it is sent again.
func (r *reader) joint(c *call, now int64, o *outcome) error {
	one := *o
	o.err = nil
	for i := 0; ; i++ {
		o.joint = append(o.joint, store.JointAnswer{Answer: one.answer, Err: one.err})
		if bad := (*store.StateError)(nil); one.err != nil && !errors.As(one.err, &bad) && (o.err == nil || errors.Is(one.err, errPeriods)) {
			o.err = one.err
		}
		if i == len(c.others) {
			return nil
		}
		one = outcome{}
		if err := r.answer(&c.others[i].request.Request, now, &one); err != nil {
			return err
		}
	}
}

// The first byte of an answer. An answer with waits begins with 'a' or 'd'
// instead of '+' or '-'.
const (
	allowedSign, allowedWaitsSign = '+', 'a'
	unusedSign                    = 'n' // allowed to take nothing, of a key without state
	deniedSign, deniedWaitsSign   = '-', 'd'
	errorSign                     = '!'
	periodsSign                   = '?'
	timesSign                     = '*'
)

// answer reads the answer to a request into o. An answer has, in this order
//
//   - a sign
//   - a level for each limit
//   - if the action is Reserve or higher, a number: when the tokens are due, or
//     how many tokens were taken beyond N
//   - with the signs of waits, two numbers for each limit: see bucket.Waits
//
// Or it is errorSign, the length of an error in two bytes, and the error. Or it
// is periodsSign alone: the call needs more periods.
func (r *reader) answer(request *bucket.Request, now int64, o *outcome) error {
	sign := r.take(1)[0]
	switch sign {
	case errorSign:
		size := int(bigEndian(r.take(2)))
		o.err = keyError(strings.TrimRight(r.take(size), " "))
		return nil
	case periodsSign:
		o.err = errPeriods
		return nil
	}
	a, n := &o.answer, len(request.Set.Rates)
	a.Unused = sign == unusedSign
	a.Allowed = sign == allowedSign || sign == allowedWaitsSign || a.Unused
	a.Now = now
	a.Levels.Grow(n)
	for i := range n {
		level, _, err := request.Set.Rates[i].ParseLevel(r.take(bucket.LevelSize))
		if err != nil {
			return fmt.Errorf("%w: %w", errReply, err)
		}
		*a.Levels.At(i) = level
	}
	switch {
	case request.Action == bucket.Lease, request.Action == bucket.AtMost, request.Action == bucket.Acquire:
		a.Lent = double(r.take(8))
	case request.Action >= bucket.Reserve:
		a.Due = max(now, micros(r.take(8)))
	}
	if sign == allowedWaitsSign || sign == deniedWaitsSign {
		list := make([]bucket.Waits, n)
		for i := range list {
			list[i] = bucket.Waits{Retry: micros(r.take(8)), Full: micros(r.take(8))}
		}
		a.Waits = &list
	}
	return nil
}

// double reads a whole number in the format '>d'.
func double(s string) int64 { return int64(math.Float64frombits(bigEndian(s))) }

// micros reads an instant or a delay in µs, in the format '>d'. Its bound makes
// it fit a time.Duration, whatever the bytes are.
func micros(s string) int64 { return min(double(s), bucket.Forever) }

// bigEndian reads an unsigned number of up to 8 bytes.
func bigEndian(s string) (n uint64) {
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}
