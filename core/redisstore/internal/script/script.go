// Package script has the Lua scripts that decide in Redis, and writes
// their arguments. The plain script decides requests of limits that only
// refill, many keys in a call; the full one all others. Both compute what
// package bucket computes, on the same state. It is a package because it needs no
// client: its tests compare it with package bucket.
package script

import (
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

var (
	//go:embed formulas.lua
	formulas string
	//go:embed plain.lua
	plain string
	//go:embed full.lua
	full string
	//go:embed struct.lua
	structs string
)

// The scripts. Those that end in WithoutStruct are for servers whose Lua lacks
// the library struct; they are slower.
var (
	Plain              = newScript(formulas + plain)
	Full               = newScript(formulas + full)
	PlainWithoutStruct = newScript(structs + formulas + plain)
	FullWithoutStruct  = newScript(structs + formulas + full)
)

// Script is a script and its name on servers.
type Script struct{ Text, SHA any } // any, because a conversion for each call would allocate

func newScript(text string) *Script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is how Redis names scripts
	return &Script{text, hex.EncodeToString(sum[:])}
}

// PlainArgs returns the arguments of the plain script after now, for requests
// on as many keys that have the action, limits and tokens of r, each so many
// times. nil stands for once.
func PlainArgs(r *bucket.Request, times []int64) (action, counts, limits any) {
	action, counts = take, once
	switch {
	case r.Action == bucket.Charge:
		action = charge
	case r.Looks():
		action = look
	}
	if times != nil {
		c := make([]byte, 0, 7*len(times))
		for _, n := range times {
			c = bucket.Append7(c, n)
		}
		counts = c
	}
	if r.Each == nil {
		if sent := r.Set.Sent.Load(); sent != nil && sent.N == r.N {
			return action, counts, sent.Limits
		}
	}
	l := make([]byte, 0, limitSize*len(r.Set.Rates))
	for i := range r.Set.Rates {
		l = appendLimit(l, r, i)
	}
	if r.Each == nil {
		r.Set.Sent.Store(&bucket.Sent{N: r.N, Limits: l})
	}
	return action, counts, l
}

// As any, because a conversion for each call would allocate.
var take, look, charge, once any = "take", "look", "charge", ""

// FullArg returns the argument of the full script for a request that is decided
// at about now.
func FullArg(r *bucket.Request, now int64) []byte {
	starts := r.Starts
	if starts == nil {
		starts = r.Set.Starts(now)
	}
	b := make([]byte, 0, requestSize+len(r.Set.Rates)*(limitSize+2*7))
	b = bucket.Append7(append(b, byte(r.Action)), r.Most(), r.When)
	b = binary.BigEndian.AppendUint64(b, r.Ticket)
	for i := range r.Set.Rates {
		b = bucket.Append7(appendLimit(b, r, i), r.Set.Rates[i].Hold, r.EndsOf(i))
		if r.Set.Rates[i].Steps == bucket.OnCalendar {
			b = bucket.Append7(binary.BigEndian.AppendUint16(b, uint16(len(starts[i]))), starts[i]...)
		}
	}
	return b
}

const requestSize, limitSize = 23, 40

// appendLimit appends the i-th limit of r, as '>I4I7I7I7I7Bi7' of Lua's struct.
func appendLimit(b []byte, r *bucket.Request, i int) []byte {
	l := &r.Set.Rates[i]
	b = bucket.Append7(binary.BigEndian.AppendUint32(b, l.Tag), l.Unit, l.Capacity, l.Gain, l.Step)
	return bucket.Append7(append(b, byte(l.Steps)), r.Amount(i))
}

// Reply reads a script's reply: first [NewReply], then the answer of each key
// or request.
type Reply struct {
	text string
	now  int64
}

// NewReply returns the reader of a reply.
func NewReply(text string) (Reply, error) {
	if len(text) < 7 {
		return Reply{}, errShort
	}
	return Reply{text[7:], bucket.Int7(text)}, nil
}

const (
	grantedSize = 7
	answerSize  = 21 // of a limit
	replySize   = 18 // of a request of the full script, in front of its limits' answers
	failed      = 1<<56 - 1
)

// NoBucket is a part of the error of a key that holds something else.
const NoBucket = "the key holds no bucket"

// ErrFailed means that the plain script could not decide a key.
var ErrFailed = errors.New("the key could not be decided")

var errShort = errors.New("unexpected reply of the script: it is too short")

// Plain reads the answer of the next key from a reply of the plain script.
func (r *Reply) Plain(request *bucket.Request, a *bucket.Answer) error {
	if len(r.text) < grantedSize {
		return errShort
	}
	a.Now, a.Due, a.There, a.Granted = r.now, r.now, 0, bucket.Int7(r.text)
	if r.text = r.text[grantedSize:]; a.Granted == failed {
		return ErrFailed
	}
	n := len(request.Set.Rates)
	if len(r.text) < n*bucket.RecordSize {
		return errShort
	}
	a.Levels.Grow(n)
	for i := range n {
		text := r.text[i*bucket.RecordSize:]
		record := bucket.ReadRecord(text)
		*a.Levels.At(i) = record.Left(request, i, a.Granted > 0, r.now)
	}
	r.text = r.text[n*bucket.RecordSize:]
	a.Decided(request)
	return nil
}

// Full reads the answer of the next request from a reply of the full script.
func (r *Reply) Full(request *bucket.Request, a *bucket.Answer) error {
	if len(r.text) < replySize {
		return errShort
	}
	a.Granted, a.Due, a.There = bucket.Int7(r.text), bucket.Int7(r.text[7:]), bucket.Int4(r.text[14:])
	r.text = r.text[replySize:]
	return r.limits(request, a)
}

// limits reads the answers of limits.
func (r *Reply) limits(request *bucket.Request, a *bucket.Answer) error {
	n := len(request.Set.Rates)
	if len(r.text) < n*answerSize {
		return errShort
	}
	a.Now = r.now
	a.Levels.Grow(n)
	for i := range n {
		text := r.text[i*answerSize:]
		units := bucket.Int7(text) << 8 >> 8 // signed
		*a.Levels.At(i) = bucket.Left{Units: units, Ready: bucket.Int7(text[7:]), Full: bucket.Int7(text[14:])}
	}
	r.text = r.text[n*answerSize:]
	a.Decided(request)
	return nil
}
