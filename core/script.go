package core

import (
	"crypto/sha1"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
)

//go:embed script.lua
var scriptText string

// scriptSHA names the script in the server's cache.
var scriptSHA = func() string {
	sum := sha1.Sum([]byte(scriptText))
	return hex.EncodeToString(sum[:])
}()

// packed is r in the form '>Bdd' that script.lua reads.
func (r Request) packed() string {
	moment := r.within
	if r.action == cancel {
		moment = r.due
	}
	var b [17]byte
	b[0] = byte(r.action)
	binary.BigEndian.PutUint64(b[1:], math.Float64bits(float64(r.n)))
	binary.BigEndian.PutUint64(b[9:], math.Float64bits(float64(moment)))
	return string(b[:])
}

// readReply reads the script's reply to one request: now and one string for its key.
func (r Request) readReply(reply any) (Answer, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 2 {
		return Answer{}, fmt.Errorf("unexpected reply %T of the script", reply)
	}
	clock, _ := items[0].(string)
	now, err := strconv.ParseInt(clock, 10, 64)
	if err != nil {
		return Answer{}, fmt.Errorf("unexpected time in the reply of the script: %w", err)
	}
	answer, _ := items[1].(string)
	return r.readAnswer(answer, now)
}

// readAnswer reads '+' or '-' and the records of the levels, or '!' and an error.
func (r Request) readAnswer(s string, now int64) (Answer, error) {
	if s == "" {
		return Answer{}, errors.New("unexpected empty answer of the script")
	}
	if s[0] == '!' {
		return Answer{}, &StateError{s[1:]}
	}
	var room [inlineLevels]bucket
	buckets, err := parseBuckets(room[:0], s[1:])
	if err != nil || len(buckets) != len(r.plan.rates) {
		return Answer{}, fmt.Errorf("unexpected answer of the script: %d bytes for %d limits", len(s), len(r.plan.rates))
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
