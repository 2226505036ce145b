package redisstore

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// entry is what an operator said last about a key, as the hash of a policy's
// exceptions has it in JSON. It blocks the key, has limits for it, or removes
// what was said before.
type entry struct {
	At      int64        `json:"at"`             // the version of the hash since when it is there: of two entries the higher one is newer
	End     int64        `json:"end,omitempty"`  // when it ends, in ms since 1970 by the clock of Redis; 0: when it is removed
	Keep    int64        `json:"keep,omitempty"` // until when the hash keeps it: a process may remember an older one so long; 0: for ever
	Blocked bool         `json:"blocked,omitempty"`
	Limits  []core.Limit `json:"limits,omitempty"`
	Removed bool         `json:"removed,omitempty"`
	By      string       `json:"by,omitempty"`
	Why     string       `json:"why,omitempty"`

	text string // the JSON, which may have more than this version knows
}

// removedFor is how long the hash keeps a removal of an exception without an
// end.
const removedFor = 7 * 24 * time.Hour

// holds reports whether e is in force at a time of Redis.
func (e *entry) holds(now time.Time) bool {
	return !e.Removed && (e.End == 0 || e.End > now.UnixMilli())
}

// forever is how long the hash lives if an entry has no end.
const forever = 100 * 365 * 24 * time.Hour

// stays returns for how long e is kept from a time of Redis on; 0: it need not
// be.
func (e *entry) stays(now time.Time) time.Duration {
	if e.Keep == 0 {
		return forever
	}
	return max(0, time.UnixMilli(e.Keep).Sub(now))
}

// readEntry reads the value of a field. The error does not show the field.
func readEntry(policy, field, text string) (e entry, err error) {
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return e, err
	}
	e.text = text
	e.By, e.Why = printable.Clip(e.By, longestLine), printable.Clip(e.Why, longestLine) // somebody may have written more by hand
	switch {
	case !e.Removed && e.Blocked == (len(e.Limits) > 0):
		return e, errors.New("must have either blocked, limits or removed")
	case e.At <= 0 || e.At > maxVersion:
		return e, fmt.Errorf("at: %d is out of range", e.At)
	case len(field) > store.MaxKey:
		return e, errors.New("the key is too long")
	case len(e.Limits) > 0:
		return e, core.Policy{Name: policy, Limits: e.Limits}.Validate()
	}
	return e, nil
}

// exceptionHash is what Redis has of a policy's exceptions.
type exceptionHash struct {
	version string    // "": there is none
	now     time.Time // by the clock of Redis
	entries map[string]entry
	bad     map[string]error // why fields can't be read
}

// maxVersion is the highest version of a hash that this package continues.
const maxVersion = 1 << 62

// next returns the next version: about the time of Redis in microseconds. After
// a loss it is a minute ahead, so that what operators say then is newer than
// what processes remember, also on a server whose clock is behind. A part of
// it is random, and less than a write takes: what is said after a replica without
// the last writes has taken over rarely has the version of what was lost, for
// which a process that knows that one would read nothing.
func (h *exceptionHash) next() int64 {
	next := h.now.UnixMicro()
	if v, err := strconv.ParseInt(h.version, 10, 64); err == nil && v > 0 && v < maxVersion {
		next = max(next, v+1+rand.Int64N(64))
	} else {
		next = h.now.Add(time.Minute).UnixMicro()
	}
	for _, e := range h.entries {
		next = max(next, e.At+1)
	}
	return next
}

// inForce returns the exceptions that hold, sorted by key.
func (h *exceptionHash) inForce() (list []Exception) {
	for _, key := range slices.Sorted(maps.Keys(h.entries)) {
		e := h.entries[key]
		if !e.holds(h.now) {
			continue
		}
		x := Exception{Key: key, Limits: e.Limits, By: e.By, Reason: e.Why}
		if e.End > 0 {
			x.For = time.UnixMilli(e.End).Sub(h.now).Truncate(time.Millisecond)
		}
		list = append(list, x)
	}
	return list
}

// unreadable returns a [store.StateError] that says why fields can't be read, for
// the first ten; nil: all can.
func (h *exceptionHash) unreadable(policy string) error {
	if len(h.bad) == 0 {
		return nil
	}
	var why []string
	for _, field := range slices.Sorted(maps.Keys(h.bad))[:min(10, len(h.bad))] {
		why = append(why, fmt.Sprintf("%q: %v", printable.Clip(field, store.MaxKey), h.bad[field]))
	}
	return &store.StateError{Reason: fmt.Sprintf("%d exceptions of policy %q can't be read, such as of %s", len(h.bad), policy, strings.Join(why, "; "))}
}

// exceptionsScript reads the hash in a script, because its reader needs the time
// of the server that has it.
var exceptionsScript = redis.NewScript(exceptionsText)

//go:embed exceptions.lua
var exceptionsText string

// exceptionsKey returns the Redis key of a policy's exceptions. No bucket has
// it: a bare "%" begins no policy in [redisKey].
func (s *batches) exceptionsKey(policy string) string {
	return s.prefix + "%exceptions:" + encodedPolicy(policy)
}

// policyOfExceptions is the inverse of exceptionsKey. ok is false for the key
// of anything else.
func (s *batches) policyOfExceptions(key string) (policy string, ok bool) {
	policy = decodedPolicy.Replace(strings.TrimPrefix(key, s.exceptionsKey("")))
	return policy, s.exceptionsKey(policy) == key
}

// readExceptions reads the hash of a policy.
func (s *batches) readExceptions(ctx context.Context, policy string) (*exceptionHash, error) {
	key := s.exceptionsKey(policy)
	list, err := exceptionsScript.Run(ctx, s.client, []string{key}).StringSlice()
	if err != nil {
		return nil, foreignKey(key, err)
	}
	fields := len(list) - 1
	now, err := strconv.ParseInt(list[fields], 10, 64)
	if err != nil {
		return nil, err
	}
	h := &exceptionHash{now: time.UnixMicro(now), entries: make(map[string]entry), bad: make(map[string]error)}
	for i := 0; i < fields; i += 2 {
		field := list[i]
		if field == "" {
			h.version = list[i+1]
		} else if e, err := readEntry(policy, field, list[i+1]); err != nil {
			h.bad[field] = err
		} else {
			h.entries[field] = e
		}
	}
	return h, nil
}

// change writes entries over those of their keys in h, under a version, and
// drops those that need not be kept any more. It reports whether it did: if
// false, somebody has changed the hash since it was read.
func (s *batches) change(ctx context.Context, policy string, h *exceptionHash, entries map[string]entry, version int64) (done bool, err error) {
	var fields []any
	lives := time.Minute
	if len(h.bad) > 0 {
		lives = forever
	}
	all := maps.Clone(h.entries)
	maps.Copy(all, entries)
	for field, e := range all {
		stays := e.stays(h.now)
		lives = max(lives, stays)
		if stays == 0 {
			fields = append(fields, field, "")
		} else if _, changed := entries[field]; changed {
			fields = append(fields, field, e.text)
		}
	}
	key := s.exceptionsKey(policy)
	args := append([]any{h.version, version, lives.Milliseconds()}, fields...)
	n, err := exceptionsScript.Run(ctx, s.client, []string{key}, args...).Int()
	return n > 0, foreignKey(key, err)
}

// foreignKey returns err of a call for a Redis key of exceptions, as messages
// show it.
func foreignKey(key string, err error) error {
	err = withoutArguments(err)
	if ofExceptionsKey(err) {
		return fmt.Errorf("the Redis key %q is not of this package: rename it, or give the store another prefix: %w", key, err)
	}
	return err
}

// ofExceptionsKey reports whether err is about the key that has a policy's
// exceptions, and not about Redis.
func ofExceptionsKey(err error) bool {
	text := serverText(err)
	return strings.HasPrefix(text, "WRONGTYPE") || strings.HasPrefix(text, "FOREIGN")
}
