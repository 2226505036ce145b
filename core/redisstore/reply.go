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
	if isWritten(text, calls[0].request.Plan) && run(calls) == len(calls) && calls[0].others == nil {
		outcomes := make([]outcome, len(calls))
		return outcomes, readLevels(text, calls, len(calls), nil, outcomes)
	}
	if len(text) < 8 {
		return nil, fmt.Errorf("%w: %T of %d bytes", errReply, reply, len(text))
	}
	now := double(text[:8])
	text = text[8:]
	outcomes := make([]outcome, len(calls))
	for i := 0; i < len(calls); {
		times := run(calls[i:])
		n, err := readRun(text, calls[i:i+times], now, outcomes[i:])
		if err == nil {
			text = text[n:]
			text, err = readJoint(text, calls[i], now, &outcomes[i])
		}
		if err != nil {
			return nil, err
		}
		i += times
	}
	return outcomes, nil
}

// readRun reads the answer to calls that are alike, at the beginning of text:
// one for all, or one for each. It returns the size.
func readRun(text string, calls []*call, now int64, outcomes []outcome) (size int, err error) {
	if len(calls) > 1 && strings.HasPrefix(text, string(timesSign)) {
		return readTimes(text, calls, now, outcomes)
	}
	for i, c := range calls {
		o, n, err := readAnswer(text[size:], &c.request.Request, now)
		if err != nil {
			return 0, err
		}
		outcomes[i] = o
		size += n
	}
	return size, nil
}

// isWritten reports whether a reply is what was written under p, which does not
// begin as an instant does: a level's units are a small number, and a record's
// definition is one of p.
func isWritten(text string, p *bucket.Plan) bool {
	if len(p.Rates) == 1 {
		return len(text) == bucket.LevelSize && text[0] < 2*bucket.ZeroUnits>>48
	}
	return len(text) == bucket.RecordSize*len(p.Rates) && text[:bucket.DefinitionSize] == p.Packed[:bucket.DefinitionSize]
}

// readJoint completes o, the outcome of c's first request, with the answers to
// c's others, and returns the text behind them. A key that can't be used is an
// error of its own request only. Any other error, such as of a write that the
// server refuses, is one of the whole call, which may succeed if it is sent
// again.
func readJoint(text string, c *call, now int64, o *outcome) (rest string, err error) {
	if len(c.others) == 0 {
		return text, nil
	}
	add := func(one outcome) {
		o.joint = append(o.joint, store.JointAnswer{Answer: one.answer, Err: one.err})
		if bad := (*store.StateError)(nil); one.err != nil && !errors.As(one.err, &bad) && (o.err == nil || errors.Is(one.err, errPeriods)) {
			o.err = one.err
		}
	}
	first := *o
	o.err = nil
	add(first)
	for i := range c.others {
		other, n, err := readAnswer(text, &c.others[i].request.Request, now)
		if err != nil {
			return "", err
		}
		add(other)
		text = text[n:]
	}
	return text, nil
}

// readTimes reads one answer to all of calls, which are alike, and returns its
// size. The answer is timesSign, how many calls are allowed, which are the
// first ones, and the levels after the last of these.
func readTimes(text string, calls []*call, now int64, outcomes []outcome) (size int, err error) {
	r := &calls[0].request
	if size = 3 + bucket.LevelSize*len(r.Plan.Rates); len(text) < size {
		return 0, fmt.Errorf("%w: %d bytes, want %d", errReply, len(text), size)
	}
	allowed := int(bigEndian(text[1:3]))
	if allowed > len(calls) {
		return 0, fmt.Errorf("%w: %d of %d are allowed", errReply, allowed, len(calls))
	}
	return size, readLevels(text[3:size], calls, allowed, &now, outcomes)
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
		outcomes[i].answer.Levels.Grow(len(r.Plan.Rates))
	}
	size := len(text) / len(r.Plan.Rates)
	for j := range r.Plan.Rates {
		rate := &r.Plan.Rates[j]
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

// readAnswer reads the answer to r at the beginning of text, and returns its
// size. An answer has, in this order
//
//   - a sign
//   - a level for each limit
//   - if the action is Reserve or higher, a number: when the tokens are due, or
//     how many tokens were taken beyond N
//   - with the signs of waits, two numbers for each limit: see bucket.Waits
//
// Or it is errorSign, the length of an error in two bytes, and the error. Or it
// is periodsSign alone: the call needs more periods.
func readAnswer(text string, r *bucket.Request, now int64) (o outcome, size int, err error) {
	if strings.HasPrefix(text, string(errorSign)) && len(text) >= 3 {
		if size = 3 + int(bigEndian(text[1:3])); len(text) >= size {
			return outcome{err: keyError(strings.TrimRight(text[3:size], " "))}, size, nil
		}
	}
	if strings.HasPrefix(text, string(periodsSign)) {
		return outcome{err: errPeriods}, 1, nil
	}
	n := len(r.Plan.Rates)
	levels := 1 + bucket.LevelSize*n
	size = levels
	if r.Action >= bucket.Reserve {
		size += 8
	}
	waitsAt := size
	tellsWaits := text != "" && (text[0] == allowedWaitsSign || text[0] == deniedWaitsSign)
	if tellsWaits {
		size += 16 * n
	}
	if len(text) < size {
		return o, 0, fmt.Errorf("%w: %d bytes, want %d", errReply, len(text), size)
	}
	o.answer.Unused = text[0] == unusedSign
	o.answer.Allowed = text[0] == allowedSign || text[0] == allowedWaitsSign || o.answer.Unused
	o.answer.Now = now
	o.answer.Levels.Grow(n)
	for i := range n {
		level, _, err := r.Plan.Rates[i].ParseLevel(text[1+bucket.LevelSize*i : 1+bucket.LevelSize*(i+1)])
		if err != nil {
			return o, 0, fmt.Errorf("%w: %w", errReply, err)
		}
		*o.answer.Levels.At(i) = level
	}
	switch {
	case r.Action == bucket.Lease, r.Action == bucket.AtMost, r.Action == bucket.Acquire:
		o.answer.Lent = double(text[levels:waitsAt])
	case r.Action >= bucket.Reserve:
		o.answer.Due = max(now, micros(text[levels:waitsAt]))
	}
	if tellsWaits {
		list := make([]bucket.Waits, n)
		for i := range list {
			at := waitsAt + 16*i
			list[i] = bucket.Waits{Retry: micros(text[at : at+8]), Full: micros(text[at+8 : at+16])}
		}
		o.answer.Waits = &list
	}
	return o, size, nil
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
