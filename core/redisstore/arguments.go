package redisstore

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// This file writes the script's arguments. internal/script/script.lua has their
// format. A record is the stored level of one limit.

// A request begins with this many bytes, REQUEST in constants.lua: for how many
// keys it is, how many limits follow, the action, n, and how many times.
const (
	requestSize = 15
	timesAt     = 13 // where the last of these is
)

// Flags of an action: see script.lua.
const (
	dryFlag   = 0x08 // take nothing: only find out whether there are tokens
	heldFlag  = 0x10 // for how long each limit holds what is taken follows
	jointFlag = 0x20 // decide this request and the next one together
	eachFlag  = 0x40 // a number of tokens for each limit follows
	endsFlag  = 0x80 // end a hold first
)

// scriptArgs returns the arguments of EVALSHA for calls, but for the first two,
// which command fills in. now is "" for the server's clock. wide is that of
// bucket.LimitSet.Calendars. It notes in each call which calendars it sends.
//
// Adjacent calls share what they can. Calls that are alike are one key, and one
// request with a count. Calls that are sameTake are several keys, and one
// request. A request does not repeat the limits of the one before. Example:
// three calls for key a and one for key b, of 1 token each, are the keys a and
// b, a request for 3 times with the limits, and a request for 1 time without.
func scriptArgs(calls []*call, now string, wide bool) []any {
	args := make([]any, 3, 5+len(calls))
	requests := make([]byte, 0, requestSize+len(calls[0].request.Set.Packed)) // most script calls have one request
	var calendars []byte
	var before *bucket.LimitSet // of the request before
	var sent string             // the calendars of its limits
	add := func(m *member, times int, flags byte) {
		args = append(args, m.key)
		p := m.request.Set
		requests = appendRequest(requests, &m.request.Request, before != p, times, flags)
		if before != p && !p.Simple {
			sent = p.Calendars(approxNow(now), wide)
			calendars = append(calendars, sent...)
		}
		if !p.Simple {
			m.calendars = sent
		}
		before = p
	}
	var last *call   // the first call of the request before
	at, keys := 0, 0 // where that request begins, and for how many keys it is; 0 keys: there is none yet
	for i := 0; i < len(calls); {
		c, times := calls[i], run(calls[i:])
		i += times
		if times == 1 && keys > 0 && binary.BigEndian.Uint16(requests[at+timesAt:]) == 1 && sameTake(last, c) {
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
			times := 1
			if j == len(c.others)-1 {
				times = 0 // it is the last one
			}
			add(&c.others[j], times, jointFlag)
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

// approxNow returns now in µs since 1970. If now is "", it returns the time of
// this process instead of the server's.
func approxNow(now string) int64 {
	if now == "" {
		return time.Now().UnixMicro()
	}
	at, _ := strconv.ParseInt(now, 10, 64)
	return at
}

// appendRequest appends r to b, as a request for one key, with the set's
// limits if limitsFollow. times and flags are fields of the request.
func appendRequest(b []byte, r *bucket.Request, limitsFollow bool, times int, flags byte) []byte {
	limits, packed := 0, ""
	if limitsFollow {
		limits, packed = len(r.Set.Rates), r.Set.Packed
	}
	each := r.Each != nil || !r.Set.Simple
	if each {
		flags |= eachFlag
	}
	if r.Ends.Ticket != 0 {
		flags |= endsFlag
	}
	if r.Dry {
		flags |= dryFlag
	}
	if r.Set.Holds {
		flags |= heldFlag
	}
	b = append(b, 0, 1, byte(limits>>8), byte(limits), byte(r.Action)|flags)
	b = appendDoubles(b, r.N)
	if r.EndsToo != nil { // times of an End is how many holds it ends
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
	for i := 0; each && i < len(r.Set.Rates); i++ {
		b = appendDoubles(b, r.Of(i))
	}
	for i := 0; r.Set.Holds && i < len(r.Set.Rates); i++ {
		b = appendDoubles(b, r.Set.Rates[i].Hold)
	}
	return b
}

// appendDoubles appends numbers in the format '>d'.
func appendDoubles(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}
