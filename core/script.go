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

// requestSize is what most requests take: '>I2Bd' in script.lua.
const requestSize = 11

// ends marks an action that ends a hold first.
const endsFlag = 0x80

// appendPacked appends r, whose limits are the list-th.
func (r *Request) appendPacked(b []byte, list int) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(list))
	flags := byte(0)
	if r.ends.ticket != 0 {
		flags = endsFlag
	}
	b = appendDoubles(append(b, byte(r.action)|flags), r.n)
	if r.action >= reserve {
		b = appendDoubles(b, r.more, r.ticket)
	}
	if r.ends.ticket != 0 {
		b = appendDoubles(b, r.ends.ticket, r.ends.back)
	}
	return b
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

// The signs that an answer begins with. 'a' and 'd' stand for '+' and '-' where the answer tells waits.
const (
	allowedSign, allowedWaitsSign = '+', 'a'
	deniedSign, deniedWaitsSign   = '-', 'd'
	errorSign                     = '!'
)

// readAnswer reads the answer at the beginning of text and tells how long it is: a sign and a record for each
// limit; of reserve, await and lease a number, and where it tells waits two for each limit. Or an error sign, the
// length of an error in two bytes, and that.
func (r *Request) readAnswer(text string, now int64) (o outcome, size int, err error) {
	if strings.HasPrefix(text, string(errorSign)) && len(text) >= 3 {
		if size = 3 + int(bigEndian(text[1:3])); len(text) >= size {
			return outcome{err: keyError(text[3:size])}, size, nil
		}
	}
	n := len(r.plan.rates)
	records := 1 + recordSize*n
	size = records
	if r.action >= reserve {
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
	var room [inlineLevels]record
	levels, err := parseRecords(room[:0], text[1:records])
	if err != nil {
		return o, 0, fmt.Errorf("%w: %w", errReply, err)
	}
	o.answer = Answer{Allowed: text[0] == allowedSign || text[0] == allowedWaitsSign, now: now}
	o.answer.levels.grow(n)
	for i := range levels {
		*o.answer.levels.at(i) = r.plan.rates[i].level(&levels[i])
	}
	switch {
	case r.action == lease:
		o.answer.lent = double(text[records:waitsAt])
	case r.promises():
		o.answer.due = double(text[records:waitsAt])
	}
	if tellsWaits {
		list := make([]waits, n)
		for i := range list {
			at := waitsAt + 16*i
			list[i] = waits{double(text[at : at+8]), double(text[at+8 : at+16])}
		}
		o.answer.waits = &list
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
	if text == errUnreadable.reason || text == errCrowded.reason || strings.HasPrefix(text, "WRONGTYPE") {
		return &StateError{text}
	}
	return serverError(text)
}

// serverError is an error reply that concerns one key. It is a [redis.Error].
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError marks it as a server's.
func (serverError) RedisError() {}
