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
	"strings"

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

// AppendPlainArgs appends the arguments of the plain script, for requests on as
// many keys that have the action, limits and tokens of r, each so many times. nil
// stands for once, and now "" for the server's clock. What says the usual at the
// end is left out.
func AppendPlainArgs(args []any, r *bucket.Request, times []int64, now string) []any {
	args = append(args, plainLimits(r))
	action := take
	switch {
	case r.Action == bucket.Charge:
		action = charge
	case r.Looks():
		action = look
	}
	if times == nil && now == "" {
		if action == take {
			return args
		}
		return append(args, action)
	}
	args = append(args, action, bucket.Append7(make([]byte, 0, 7*len(times)), times...))
	if now == "" {
		return args
	}
	return append(args, now)
}

// As any, because a conversion for each call would allocate.
var take, look, charge any = "take", "look", "charge"

// plainLimits returns the limits of r as the plain script reads them. Those of
// most requests are written once.
func plainLimits(r *bucket.Request) any {
	if r.Each == nil {
		if sent := r.Set.Sent.Load(); sent != nil && sent.N == r.N {
			return sent.Limits
		}
	}
	l := make([]byte, 0, limitSize*len(r.Set.Rates))
	for i := range r.Set.Rates {
		l = appendLimit(l, r, i)
	}
	if r.Each == nil {
		r.Set.Sent.Store(&bucket.Sent{N: r.N, Limits: l})
	}
	return l
}

// FullArg returns the argument of the full script for a request that is decided
// at about now.
func FullArg(r *bucket.Request, now int64) []byte {
	starts := r.Starts
	if starts == nil {
		starts = r.Set.Starts(now)
	}
	b := make([]byte, 0, requestSize+len(r.Set.Rates)*(limitSize+4*7))
	b = append(b, byte(r.Action), 0)
	if r.Set.Holds {
		b[1] = 1
	}
	b = bucket.Append7(b, r.Most(), r.When)
	b = binary.BigEndian.AppendUint64(b, r.Ticket)
	for i := range r.Set.Rates {
		penalty := r.Set.Rates[i].Penalty
		if r.Shadow {
			penalty = 0
		}
		b = bucket.Append7(appendLimit(b, r, i), r.Floor(i), penalty, r.Set.Rates[i].Hold, r.EndsOf(i))
		if r.Set.Rates[i].Steps == bucket.OnCalendar {
			b = bucket.Append7(binary.BigEndian.AppendUint16(b, uint16(len(starts[i]))), starts[i]...)
		}
	}
	return b
}

const requestSize, limitSize = 24, 40

// appendLimit appends the i-th limit of r, as '>I4I7I7I7I7Bi7' of Lua's struct.
func appendLimit(b []byte, r *bucket.Request, i int) []byte {
	l := &r.Set.Rates[i]
	b = bucket.Append7(binary.BigEndian.AppendUint32(b, l.Tag), l.Unit, l.Capacity, l.Gain, l.Step)
	return bucket.Append7(append(b, byte(l.Steps)), r.Amount(i))
}

// Reply is what is left to read of a script's reply: the answers of keys or
// requests.
type Reply string

// NoBucket is a part of the error of a key that holds something else.
const NoBucket = "the key holds no bucket"

// ErrFailed means that the plain script could not decide a key.
var ErrFailed = errors.New("the key could not be decided")

var errShort = errors.New("unexpected reply of the script: it is too short")

// next returns the next bytes.
func (r *Reply) next(size int) (string, error) {
	if len(*r) < size {
		return "", errShort
	}
	text := string((*r)[:size])
	*r = (*r)[size:]
	return text, nil
}

// failed stands in place of the answer of a key that could not be decided.
const failed = "\xff\xff\xff\xff\xff\xff\xff"

// Plain reads the answer of the next key from a reply of the plain script.
func (r *Reply) Plain(request *bucket.Request, a *bucket.Answer) error {
	if strings.HasPrefix(string(*r), failed) {
		*r = (*r)[len(failed):]
		return ErrFailed
	}
	n := len(request.Set.Rates)
	const headSize, limitSize = 2 * 7, 3 * 7
	text, err := r.next(headSize + n*limitSize)
	if err != nil {
		return err
	}
	a.Granted, a.Now, a.Penalty = bucket.Int7(text), bucket.Int7(text[7:]), false
	a.Due = a.Now
	a.Levels.Grow(n)
	for i := range n {
		text := text[headSize+i*limitSize:]
		record := bucket.Record{Used: bucket.Int7(text), At: bucket.Int7(text[7:]), Cut: bucket.Int7(text[14:])}
		*a.Levels.At(i) = record.Left(request, i, a.Granted > 0, a.Now)
	}
	a.Decided(request)
	return nil
}

// Full reads the answer of the next request from a reply of the full script.
func (r *Reply) Full(request *bucket.Request, a *bucket.Answer) error {
	const headSize, limitSize = 3*7 + 4, 3 * 7
	n := len(request.Set.Rates)
	text, err := r.next(headSize + n*limitSize)
	if err != nil {
		return err
	}
	a.Granted, a.Now, a.Due = bucket.Int7(text), bucket.Int7(text[7:]), bucket.Int7(text[14:])
	a.Penalty = bucket.Int4(text[21:]) > 0
	a.Levels.Grow(n)
	for i := range n {
		text := text[headSize+i*limitSize:]
		units := bucket.Int7(text) << 8 >> 8 // signed
		*a.Levels.At(i) = bucket.Left{Units: units, Ready: bucket.Int7(text[7:]), Full: bucket.Int7(text[14:])}
	}
	a.Decided(request)
	return nil
}
