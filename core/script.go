package core

import (
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

//go:embed script.lua
var scriptText string

// scriptSHA names the script in the server's cache.
var scriptSHA = func() string {
	sum := sha1.Sum([]byte(scriptText))
	return hex.EncodeToString(sum[:])
}()

// requestSize is what a request takes: '>I2Bdd' in script.lua.
const requestSize = 19

// appendPacked appends r, whose limits are the list-th.
func (r Request) appendPacked(b []byte, list int) []byte {
	moment := r.within
	if r.action == cancel {
		moment = r.due
	}
	b = binary.BigEndian.AppendUint16(b, uint16(list))
	b = append(b, byte(r.action))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(float64(r.n)))
	return binary.BigEndian.AppendUint64(b, math.Float64bits(float64(moment)))
}

var errReply = errors.New("unexpected reply of the script")

// readReply reads the script's reply to calls: now, then for each call the length of its answer and
// that.
func readReply(reply any, calls []*call) ([]outcome, error) {
	text, _ := reply.(string)
	if len(text) < 8 {
		return nil, fmt.Errorf("%w: %T of %d bytes", errReply, reply, len(text))
	}
	now := int64(math.Float64frombits(bigEndian(text[:8])))
	text = text[8:]
	outcomes := make([]outcome, len(calls))
	for i, c := range calls {
		if len(text) < 2 || len(text)-2 < int(bigEndian(text[:2])) {
			return nil, fmt.Errorf("%w: cut off", errReply)
		}
		end := 2 + int(bigEndian(text[:2]))
		outcomes[i].answer, outcomes[i].err = c.request.readAnswer(text[2:end], now)
		text = text[end:]
	}
	return outcomes, nil
}

// bigEndian reads an unsigned number of up to 8 bytes.
func bigEndian(s string) (n uint64) {
	for i := range len(s) {
		n = n<<8 | uint64(s[i])
	}
	return n
}

// readAnswer reads '+' or '-' and the records of the levels, or '!' and an error.
func (r Request) readAnswer(s string, now int64) (Answer, error) {
	if s == "" {
		return Answer{}, fmt.Errorf("%w: empty", errReply)
	}
	if s[0] == '!' {
		return Answer{}, &StateError{s[1:]}
	}
	var room [inlineLevels]bucket
	buckets, err := parseBuckets(room[:0], s[1:])
	if err != nil || len(buckets) != len(r.plan.rates) {
		return Answer{}, fmt.Errorf("%w: %d bytes for %d limits", errReply, len(s), len(r.plan.rates))
	}
	a := Answer{Allowed: s[0] == '+', now: now}
	a.levels.grow(len(buckets))
	for i := range buckets {
		*a.levels.at(i) = r.plan.rates[i].level(buckets[i])
	}
	return a, nil
}

// StateError says that one key of the store can't be used: it holds another type or bytes that are
// not a bucket. The store itself is well. [Limiter.Reset] makes the key usable again.
type StateError struct{ reason string }

// Error tells what Redis or the script said of the key.
func (e *StateError) Error() string { return "stored state: " + e.reason }
