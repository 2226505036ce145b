package redisstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// A word is what an operator said last about a key: a field of the hash of a
// policy's exceptions. exceptions.lua has its layout.
type word struct {
	stamp   int64  // orders words: the later one is higher, also if the clock of Redis steps back
	written int64  // in milliseconds, by the clock of the server that wrote it
	end     int64  // in milliseconds; 0: never; 1: it is a removal
	says    string // a said in JSON
}

// removalEnd is the end of a word that is a removal.
const removalEnd = 1

// said is the JSON of a word. Readers ignore fields that they don't know.
type said struct {
	Blocked bool         `json:"blocked,omitempty"`
	Limits  []core.Limit `json:"limits,omitempty"`
	By      string       `json:"by,omitempty"`
	Reason  string       `json:"reason,omitempty"`
}

// readWord reads a field's value. It reports whether it can: another program
// may have written it.
func readWord(value string) (w word, ok bool) {
	parts := strings.SplitN(value, " ", 4)
	if len(parts) < 4 {
		return w, false
	}
	for i, n := range []*int64{&w.stamp, &w.written, &w.end} {
		number, err := strconv.ParseUint(parts[i], 10, 52)
		if err != nil {
			return w, false
		}
		*n = int64(number)
	}
	w.says = parts[3]
	return w, true
}

func (w word) String() string { return fmt.Sprintf("%d %d %d %s", w.stamp, w.written, w.end, w.says) }

// said reads what w says. It reports whether it can.
func (w word) said() (s said, ok bool) {
	err := json.Unmarshal([]byte(w.says), &s)
	s.By, s.Reason = printable.Clip(s.By, longestLine), printable.Clip(s.Reason, longestLine) // another program may have written more
	return s, err == nil
}

// holds reports whether w is in force at an instant: it is no removal, and has
// not ended.
func (w word) holds(now time.Time) bool { return w.end == 0 || w.end > now.UnixMilli() }

// removedFor is how long a removal, or an exception that has ended, stays a
// word.
const removedFor = 24 * time.Hour

// over is the instant since which w, which does not hold, is not in force.
func (w word) over() time.Time { return time.UnixMilli(max(w.written, w.end)) }

// exception returns what w, which holds, says of a field. It reports whether it
// is known.
func (w word) exception(policy, field string, now time.Time) (e Exception, ok bool) {
	kind, key, _ := strings.Cut(field, ":")
	says, ok := w.said()
	e = Exception{Key: key, Limits: says.Limits, By: says.By, Reason: says.Reason}
	if w.end > 0 {
		e.For = time.UnixMilli(w.end).Sub(now).Truncate(time.Millisecond)
	}
	switch {
	case !ok || key == "":
		return e, false
	case kind == overrideField:
		return e, !says.Blocked && fitting(policy, e.Limits).Validate() == nil
	}
	return e, kind == blockField && says.Blocked && says.Limits == nil
}

// words are what operators have said of a policy's keys: the newest word about
// each, by field, as Redis has them or as a process remembers them. Nobody
// changes the maps.
type words struct {
	of      map[string]word
	top     int64 // no stamp is higher
	horizon int64 // removals up to this stamp may be missing

	unreadable map[string]bool // fields with what another version may have written in place of words; only of Redis
}

// wordsOf returns the words in a hash.
func wordsOf(fields map[string]string) words {
	w := words{of: make(map[string]word, len(fields)), unreadable: make(map[string]bool)}
	if version, ok := readWord(fields[""] + " "); ok { // it has three numbers too
		w.top, w.horizon = version.stamp, version.written
	}
	for field, value := range fields {
		if word, ok := readWord(value); ok && field != "" {
			w.of[field] = word
			w.top = max(w.top, word.stamp)
		} else if field != "" {
			w.unreadable[field] = true
		}
	}
	return w
}

// exceptions returns what holds at a time of Redis. The error says how many
// fields can't be read.
func (w words) exceptions(policy string, now time.Time) (list []Exception, err error) {
	var errs []error
	unreadable := slices.Collect(maps.Keys(w.unreadable))
	for _, field := range slices.Sorted(maps.Keys(w.of)) {
		if word := w.of[field]; word.holds(now) {
			if e, ok := word.exception(policy, field, now); ok {
				list = append(list, e)
			} else {
				unreadable = append(unreadable, field)
			}
		}
	}
	if len(unreadable) > 0 {
		errs = append(errs, fmt.Errorf("%d exceptions of policy %q can't be read%s: another version of this package may have written them", len(unreadable), policy, kindsOf(unreadable)))
	}
	if len(list) > MaxExceptions {
		errs = append(errs, fmt.Errorf("policy %q has %d exceptions, and only the first %d are read", policy, len(list), MaxExceptions))
		list = list[:MaxExceptions]
	}
	slices.SortStableFunc(list, func(a, b Exception) int { return cmp.Compare(a.Key, b.Key) })
	return list, errors.Join(errs...)
}

// kindsOf returns the first kinds of fields, for a message. A field without a
// colon may be a key, and is not shown.
func kindsOf(fields []string) string {
	var kinds []string
	for _, field := range fields {
		if kind, _, ok := strings.Cut(field, ":"); ok {
			kinds = append(kinds, printable.Clip(kind, limit.MaxName)+":…")
		}
	}
	slices.Sort(kinds)
	if kinds = slices.Compact(kinds); len(kinds) == 0 {
		return ""
	}
	return " (" + strings.Join(kinds[:min(3, len(kinds))], ", ") + ")"
}

// version returns a new version of a hash that has these words.
func (w words) version() string {
	return fmt.Sprintf("%d %d %s", w.top, w.horizon, nonce())
}

// nonce tells two versions with the same stamp apart: after a fail-over a stamp
// can be used twice.
func nonce() string { return strconv.FormatUint(uint64(rand.Uint32()), 10) }

func (w words) equal(other words) bool {
	return w.horizon == other.horizon && maps.Equal(w.of, other.of)
}

// mergeWords returns the newest of what a process remembers and of what Redis
// has at an instant of its clock, whatever the order in which processes do it. A
// word that is missing on one side is kept, because Redis may have lost it,
// unless the other side's horizon says that it was removed. What can't be read
// may be a newer word, of a later version of this package: it stays.
//
// The higher stamp is the newer word, with one exception: the process has seen
// all that Redis had until unseen ago, so what was written since, by the clock
// of the server that has it, is newer. Its stamp is lower if Redis has lost what
// was there, and a server with a slower clock took over. It gets a higher one.
// This is wrong if within one poll the clock steps back by about the age of a
// word, and Redis loses the newer word of the key that followed it.
func mergeWords(process, redis words, now time.Time, unseen time.Duration) words {
	merged := words{of: maps.Clone(redis.of), top: max(process.top, redis.top), horizon: max(process.horizon, redis.horizon)}
	for field, theirs := range redis.of {
		mine, known := process.of[field]
		if known && mine == theirs {
			continue
		}
		switch age := now.Sub(time.UnixMilli(theirs.written)); {
		case known && theirs.stamp > mine.stamp:
		case !known && theirs.stamp > process.horizon:
		case age >= 0 && age < unseen:
			theirs.stamp = max(process.top, redis.top) + 1
			merged.top = theirs.stamp
			merged.of[field] = theirs
		case !known:
			delete(merged.of, field)
		case theirs.stamp < mine.stamp || theirs.String() < mine.String(): // of two with one stamp, all processes take the same
			merged.of[field] = mine
		}
	}
	for field, word := range process.of {
		if _, there := redis.of[field]; !there && !redis.unreadable[field] && word.stamp > redis.horizon {
			merged.of[field] = word
		}
	}
	for field, word := range merged.of {
		if now.Sub(word.over()) > removedFor && !word.holds(now) {
			delete(merged.of, field)
			merged.horizon = max(merged.horizon, word.stamp)
		}
	}
	return merged
}
