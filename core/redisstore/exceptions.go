package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// MaxExceptions is how many exceptions a policy may have in Redis.
const MaxExceptions = 1000

// ErrExceptions is the error for an exception beyond [MaxExceptions].
var ErrExceptions = errors.New("ratelimit: the policy has " + strconv.Itoa(MaxExceptions) + " exceptions in Redis, and can have no more: remove some, or write them into the policy")

// Exception is an override or a block of one key that lives in Redis: see
// [Store.FollowExceptions].
type Exception struct {
	Key    string        // as stores have it: see [store.Key]
	Limits []core.Limit  // the key's limits, all of them; none: the key is blocked
	For    time.Duration // how long it still holds, in milliseconds and by the clock of Redis; 0: until it is removed
	By     string        // who has set it, for people who read it: a line of at most 256 bytes, or ""
	Reason string        // and why
}

// Blocks reports whether e is a block, and no override.
func (e *Exception) Blocks() bool { return len(e.Limits) == 0 }

// refusal returns what is wrong with e, or nil.
func (e *Exception) refusal(policy string) error {
	var errs []error
	if e.For < 0 || e.For > 0 && e.For < time.Millisecond {
		errs = append(errs, &core.ConfigError{Field: "SetException for", Value: e.For, Reason: "must be 0, or at least 1 ms"})
	}
	errs = append(errs, wordMistakes("SetException", e.Key, e.By, e.Reason)...)
	limits := e.Limits
	if e.Blocks() {
		limits = []core.Limit{core.PerHour(1)}
	}
	errs = append(errs, core.Policy{Name: policy, Limits: limits}.Validate())
	return errors.Join(errs...)
}

// longestLine is how many bytes of who has said something, or why, are kept.
const longestLine = 256

// wordMistakes returns what is wrong with a key, who says something of it, and
// why, as a function's arguments say it.
func wordMistakes(function, key, by, reason string) (errs []error) {
	if key == "" {
		errs = append(errs, &core.ConfigError{Field: function + " key", Value: key, Reason: "is an empty key, which no request can have"})
	}
	for _, said := range [][2]string{{"by", by}, {"reason", reason}} {
		if text := said[1]; len(text) > longestLine || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			errs = append(errs, &core.ConfigError{Field: function + " " + said[0], Value: printable.Clip(text, 80), Reason: "must be one line of text, at most 256 bytes"})
		}
	}
	return errs
}

// SetException writes an exception of a policy into Redis, in place of one that
// the key has. Processes that call [Store.FollowExceptions] obey it within two
// seconds, and write it again if Redis loses it. The error is [ErrExceptions], a
// [core.ConfigError] of each mistake, or that of the call. It costs two round
// trips, and two more each time that somebody else writes meanwhile.
func (s *Store) SetException(ctx context.Context, policy string, e Exception) error {
	if err := e.refusal(policy); err != nil {
		return err
	}
	_, err := s.say(ctx, policy, e.Key, entry{Blocked: e.Blocks(), Limits: e.Limits, By: e.By, Why: e.Reason}, e.For)
	return err
}

// RemoveException ends the exception of a key. by and reason are who ends it and
// why, as those of an [Exception]. It reports whether Redis had one. Processes
// that have one which Redis has lost end it too: the removal stays in Redis, with
// the key, for a week, or as long as what it ends would have held. Errors and
// costs are those of SetException.
func (s *Store) RemoveException(ctx context.Context, policy, key, by, reason string) (was bool, err error) {
	if err := errors.Join(wordMistakes("RemoveException", key, by, reason)...); err != nil {
		return false, err
	}
	return s.say(ctx, policy, key, entry{Removed: true, By: by, Why: reason}, 0)
}

// Exceptions returns the exceptions of a policy that are in Redis, sorted by
// key. Those that can't be read, such as those of a later version of this
// package, are left out: then the error is a [store.StateError] that says which,
// and why.
func (s *Store) Exceptions(ctx context.Context, policy string) (list []Exception, err error) {
	var h *exceptionHash
	err = s.ask(ctx, policy, func(ctx context.Context) (err error) {
		h, err = s.batches.readExceptions(ctx, policy)
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.inForce(), h.unreadable(policy)
}

// maxEntries bounds what the hash has, with what was removed.
const maxEntries = 5 * MaxExceptions

// say writes what an operator says of a key, and for how long it holds. It
// reports whether the key had an exception.
func (s *Store) say(ctx context.Context, policy, key string, says entry, lasts time.Duration) (was bool, err error) {
	key = store.Key(key)
	full := false
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		for ctx.Err() == nil {
			h, err := s.batches.readExceptions(ctx, policy)
			if err != nil {
				return err
			}
			old, known := h.entries[key]
			_, bad := h.bad[key]
			held := known && old.holds(h.now) || bad
			was = was || held // also if this has written before, and the answer was lost
			all := len(h.entries) + len(h.bad)
			if full = all >= maxEntries && !known && !bad || len(h.inForce()) >= MaxExceptions && !held && !says.Removed; full {
				return nil
			}
			says.At = h.next()
			says.end(h.now, lasts, old, known && old.stays(h.now) > 0)
			text, err := json.Marshal(says)
			if err != nil {
				return err
			}
			says.text = string(text)
			if done, err := s.batches.change(ctx, policy, h, map[string]entry{key: says}, says.At); done || err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	if full {
		err = ErrExceptions
	}
	return was, err
}

// end sets when e ends and how long it is kept: no shorter than anybody may
// remember old, which it replaces if replaces is true.
func (e *entry) end(now time.Time, lasts time.Duration, old entry, replaces bool) {
	if lasts > 0 {
		e.End = now.Add(lasts).UnixMilli()
	} else if !e.Removed {
		return
	}
	e.Keep = e.End
	switch {
	case replaces && old.Keep > 0:
		e.Keep = max(e.Keep, old.Keep)
	case replaces || e.Removed:
		e.Keep = max(e.Keep, now.Add(removedFor).UnixMilli())
	}
}
