package core

import (
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
)

//go:embed script.lua
var scriptText string

// scriptSHA names the script in the server's cache.
var scriptSHA = func() string {
	sum := sha1.Sum([]byte(scriptText))
	return hex.EncodeToString(sum[:])
}()

// requestSize is what most requests take: '>I2Bdd' in script.lua.
const requestSize = 19

// appendPacked appends r, whose limits are the list-th.
func (r Request) appendPacked(b []byte, list int) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(list))
	flags := byte(0)
	if r.varies {
		flags = 0x80
	}
	b = append(b, byte(r.action)|flags)
	switch r.action {
	case cancel:
		return appendDoubles(b, r.n, r.due)
	case lease:
		return appendDoubles(b, r.n, r.terms.extra, r.terms.taken, r.terms.at, r.terms.back)
	case take, refund:
	}
	return appendDoubles(b, r.n, r.within)
}

func appendDoubles(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return b
}

var errReply = errors.New("unexpected reply of the script")

// readReply reads the script's reply to calls: now, then the answer to each.
func readReply(reply any, calls []*call) ([]outcome, error) {
	text, _ := reply.(string)
	if len(text) < 8 {
		return nil, fmt.Errorf("%w: %T of %d bytes", errReply, reply, len(text))
	}
	now := double(text[:8])
	text = text[8:]
	outcomes := make([]outcome, len(calls))
	for i, c := range calls {
		o, n, err := c.request.readAnswer(text, now)
		if err != nil {
			return nil, err
		}
		outcomes[i], text = o, text[n:]
	}
	return outcomes, nil
}

// readAnswer reads the answer at the beginning of text and tells how long it is: '+' or '-' and a
// record for each limit, and of a lease the tokens on it; or '!', the length of an error in two bytes,
// and that.
func (r Request) readAnswer(text string, now int64) (o outcome, size int, err error) {
	records := 1 + recordSize*len(r.plan.rates)
	size = records
	if r.action == lease {
		size += 8
	}
	failed := strings.HasPrefix(text, "!")
	if failed && len(text) >= 3 {
		size = 3 + int(bigEndian(text[1:3]))
	}
	if len(text) < size {
		return o, 0, fmt.Errorf("%w: %d bytes, want %d", errReply, len(text), size)
	}
	if failed {
		return outcome{err: keyError(text[3:size])}, size, nil
	}
	var room [inlineLevels]bucket
	buckets, err := parseBuckets(room[:0], text[1:records])
	if err != nil {
		return o, 0, fmt.Errorf("%w: %w", errReply, err)
	}
	o.answer = Answer{Allowed: text[0] == '+', now: now}
	if size > records {
		o.answer.lent = double(text[records:size])
	}
	o.answer.levels.grow(len(buckets))
	for i := range buckets {
		*o.answer.levels.at(i) = r.plan.rates[i].level(buckets[i])
	}
	return o, size, nil
}

// double reads a whole number that was packed as '>d'.
func double(s string) int64 { return int64(math.Float64frombits(bigEndian(s))) }

// bigEndian reads an unsigned number of up to 8 bytes.
func bigEndian(s string) (n uint64) {
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}

// keyError is what the script reports of one key: its state can't be used, or what the server said.
func keyError(text string) error {
	if text == errUnreadable.Error() || strings.HasPrefix(text, "WRONGTYPE") {
		return &StateError{text}
	}
	return serverError(text)
}

// serverError is an error reply that concerns one key. It is a [redis.Error].
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it as a server's.
func (serverError) RedisError() {}
