package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// requestSize is what most requests take, besides their limits: '>I2I2BdI2' in constants.lua.
const requestSize = 15

// Flags of an action.
const (
	dryFlag   = 0x08 // only finds out whether there are tokens
	jointFlag = 0x20 // belongs together with the next request
	eachFlag  = 0x40 // tells the tokens of each limit
	endsFlag  = 0x80 // ends a hold first
)

// scriptArgs are the arguments of a command that runs the script for calls. The first two are left to command. now is ""
// for the server's clock. wide is that of Plan.Calendars.
func scriptArgs(calls []*call, now string, wide bool) []any {
	args := make([]any, 3, 5+len(calls))
	requests := make([]byte, 0, requestSize+len(calls[0].request.Plan.Packed)) // mostly there is one
	var calendars []byte
	var before *bucket.Plan // of the last request
	var sent string         // the calendars of its limits
	add := func(m *member, times int, flags byte) {
		args = append(args, m.key)
		p := m.request.Plan
		requests = appendRequest(requests, &m.request.Request, before != p, times, flags)
		if before != p && !p.Plain {
			sent = p.Calendars(about(now), wide)
			calendars = append(calendars, sent...)
		}
		if !p.Plain {
			m.calendars = sent
		}
		before = p
	}
	var last *call   // of the last request
	at, keys := 0, 0 // where that request is, and of how many keys
	for i := 0; i < len(calls); {
		c, times := calls[i], run(calls[i:])
		i += times
		if times == 1 && keys > 0 && binary.BigEndian.Uint16(requests[at+13:]) == 1 && sameTake(last, c) {
			args = append(args, c.key)
			keys++
			binary.BigEndian.PutUint16(requests[at:], uint16(keys))
			continue
		}
		at, keys, last = len(requests), 1, c
		if len(c.others) == 0 {
			add(&c.member, times, 0)
			continue
		}
		add(&c.member, 1, jointFlag)
		for j := range c.others {
			flags := byte(jointFlag)
			if j == len(c.others)-1 {
				flags = eachFlag // else the script might take it for a usual request, and decide it alone
			}
			add(&c.others[j], 1, flags)
		}
	}
	args[2] = len(args) - 3
	args = append(args, requests)
	if now != "" || calendars != nil {
		args = append(args, now)
	}
	if calendars != nil {
		args = append(args, calendars)
	}
	return args
}

// about is the instant now, or about that of the server's clock, in µs since 1970.
func about(now string) int64 {
	if now == "" {
		return time.Now().UnixMicro()
	}
	at, _ := strconv.ParseInt(now, 10, 64)
	return at
}

// appendRequest appends r, for one key and so many times, and its limits if they follow.
func appendRequest(b []byte, r *bucket.Request, limitsFollow bool, times int, flags byte) []byte {
	limits, packed := 0, ""
	if limitsFollow {
		limits, packed = len(r.Plan.Rates), r.Plan.Packed
	}
	each := r.Each != nil || !r.Plan.Plain || flags&eachFlag != 0
	if each {
		flags |= eachFlag
	}
	if r.Ends.Ticket != 0 {
		flags |= endsFlag
	}
	if r.Dry {
		flags |= dryFlag
	}
	b = append(b, 0, 1, byte(limits>>8), byte(limits), byte(r.Action)|flags)
	b = appendDoubles(b, r.N)
	if r.EndsToo != nil { // of End, whose times are the holds that end
		times += len(*r.EndsToo)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(times))
	b = append(b, packed...)
	if r.Action >= bucket.Reserve {
		b = appendDoubles(b, r.More, r.Ticket)
	}
	if r.Ends.Ticket != 0 {
		b = appendDoubles(b, r.Ends.Ticket, r.Ends.At, r.Ends.Back)
	}
	if r.EndsToo != nil {
		for _, e := range *r.EndsToo {
			b = appendDoubles(b, e.Ticket, e.At, e.Back)
		}
	}
	for i := 0; each && i < len(r.Plan.Rates); i++ {
		b = appendDoubles(b, r.Of(i))
	}
	return b
}

func appendDoubles(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

var (
	errReply = errors.New("unexpected reply of the script")
	// errPeriods is the error of a call for which too few periods of a calendar were sent.
	errPeriods = errors.New("the server's clock is too far from this process's to tell which period of the calendar it is")
)

// readReply reads the script's reply to calls: now, then the answer to each; or if all are alike and allowed, the records
// that were written.
func readReply(reply any, calls []*call) ([]outcome, error) {
	text, _ := reply.(string)
	if len(text) == bucket.RecordSize*len(calls[0].request.Plan.Rates) && run(calls) == len(calls) && calls[0].others == nil {
		outcomes := make([]outcome, len(calls))
		return outcomes, readRecords(text, calls, len(calls), nil, outcomes)
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

// readRun reads the answer to calls that are alike, together or to each, and returns its size.
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

// readJoint reads the answers to the requests that are decided together with the one whose outcome is o, and returns what
// follows them. A key that can't be used leaves the others alone. Any other error, such as that the server refuses to write, is
// that of all: the same call may succeed if it is sent again.
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

// readTimes reads the answer to calls that are alike, and returns its size. It is a sign, how many of them are allowed, and
// the records after these.
func readTimes(text string, calls []*call, now int64, outcomes []outcome) (size int, err error) {
	r := &calls[0].request
	if size = 3 + bucket.RecordSize*len(r.Plan.Rates); len(text) < size {
		return 0, fmt.Errorf("%w: %d bytes, want %d", errReply, len(text), size)
	}
	allowed := int(bigEndian(text[1:3]))
	if allowed > len(calls) {
		return 0, fmt.Errorf("%w: %d of %d are allowed", errReply, allowed, len(calls))
	}
	return size, readRecords(text[3:size], calls, allowed, &now, outcomes)
}

// readRecords reads the records after calls that are alike, of which the first so many were allowed. Without now that is
// when the records were written.
func readRecords(text string, calls []*call, allowed int, now *int64, outcomes []outcome) error {
	r := &calls[0].request
	var maxInFlight [4]bucket.Record
	levels, err := bucket.ParseRecords(maxInFlight[:0], text)
	if err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	if now == nil {
		now = &levels[0].At
	}
	for i := range calls {
		a := &outcomes[i].answer
		a.Allowed, a.Now = i < allowed, *now
		a.Levels.Grow(len(levels))
		later := int64(max(0, allowed-1-i)) // of the calls that were allowed
		for j := range levels {
			rate := &r.Plan.Rates[j]
			level := rate.Level(&levels[j])
			level.Units += later * r.N * rate.Unit
			*a.Levels.At(j) = level
		}
	}
	return nil
}

// The signs that an answer begins with. 'a' and 'd' stand for '+' and '-' in an answer that has the waits.
const (
	allowedSign, allowedWaitsSign = '+', 'a'
	deniedSign, deniedWaitsSign   = '-', 'd'
	errorSign                     = '!'
	periodsSign                   = '?'
	timesSign                     = '*'
)

// readAnswer reads the answer to r that text begins with, and returns its size. An answer is a sign and a record for each
// limit; then, to Reserve, Await and Lease, a number; then, after some signs, two numbers for each limit. Or it is the
// error sign, the length of an error in two bytes, and the error.
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
	records := 1 + bucket.RecordSize*n
	size = records
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
	var maxInFlight [4]bucket.Record // a policy rarely has more limits
	levels, err := bucket.ParseRecords(maxInFlight[:0], text[1:records])
	if err != nil {
		return o, 0, fmt.Errorf("%w: %w", errReply, err)
	}
	o.answer.Allowed = text[0] == allowedSign || text[0] == allowedWaitsSign
	o.answer.Now = now
	o.answer.Levels.Grow(n)
	for i := range levels {
		*o.answer.Levels.At(i) = r.Plan.Rates[i].Level(&levels[i])
	}
	switch {
	case r.Action == bucket.Lease, r.Action == bucket.AtMost:
		o.answer.Lent = double(text[records:waitsAt])
	case r.Action >= bucket.Reserve:
		o.answer.Due = max(now, micros(text[records:waitsAt]))
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

// double reads a whole number that was packed as '>d'.
func double(s string) int64 { return int64(math.Float64frombits(bigEndian(s))) }

// micros is double of an instant or a delay. Bytes that mean nothing may make it one that no time.Duration holds.
func micros(s string) int64 { return min(double(s), bucket.Forever) }

// bigEndian reads an unsigned number of up to 8 bytes.
func bigEndian(s string) (n uint64) {
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}
