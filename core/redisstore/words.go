package redisstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"
)

// words are what operators have said of a policy's keys: the newest word about
// each, by field, as Redis has them or as a process remembers them. Nobody
// changes the map.
type words struct {
	of      map[string]string
	top     int64 // no stamp is higher
	horizon int64 // removals up to this stamp may be missing

	unreadable map[string]string // what another version may have written in place of words; only of Redis
}

// wordsOf returns the words in a hash.
func wordsOf(fields map[string]string) words {
	w := words{of: make(map[string]string, len(fields)), unreadable: make(map[string]string)}
	if version, ok := readWord(fields[""] + " "); ok { // it has three numbers too
		w.top, w.horizon = version.stamp, version.written
	}
	for field, value := range fields {
		if word, ok := readWord(value); ok && field != "" {
			w.of[field] = value
			w.top = max(w.top, word.stamp)
		} else if field != "" {
			w.unreadable[field] = value
		}
	}
	return w
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
// has at an instant of its clock. It is the same in whatever order processes do
// it. A word that is missing on one side is kept, because Redis may have lost
// it, unless the other side's horizon says that it was removed. What can't be
// read may be a newer word, of a later version of this package: it stays.
//
// The higher stamp is the newer word, with one exception: the process has seen
// all that Redis had until unseen ago. So what was written since, by the clock
// of the server that has it, is newer than all that the process remembers. Its
// stamp is lower if Redis has lost what was there, and a server with a slower
// clock took over. It gets a higher one.
//
// This can be wrong if several things happen within one poll: the clock steps
// back by about the age of a word, and Redis loses the newer word of the same
// key that followed it. Nor is the order of words known if such a server loses
// them too before processes have polled.
func mergeWords(process, redis words, now time.Time, unseen time.Duration) words {
	merged := words{of: maps.Clone(redis.of), top: max(process.top, redis.top), horizon: max(process.horizon, redis.horizon)}
	for field, value := range redis.of {
		mine, known := process.of[field]
		if mine == value {
			continue
		}
		theirs, _ := readWord(value)
		word, _ := readWord(mine)
		switch age := now.Sub(time.UnixMilli(theirs.written)); {
		case known && (theirs.stamp > word.stamp):
		case !known && theirs.stamp > process.horizon:
		case age >= 0 && age < unseen:
			theirs.stamp = max(process.top, redis.top) + 1
			merged.top = theirs.stamp
			merged.of[field] = theirs.String()
		case !known:
			delete(merged.of, field)
		case theirs.stamp < word.stamp || value < mine: // of two with one stamp, all processes take the same
			merged.of[field] = mine
		}
	}
	for field, value := range process.of {
		_, there := redis.of[field]
		if _, bad := redis.unreadable[field]; there || bad {
			continue
		}
		if word, _ := readWord(value); word.stamp > redis.horizon {
			merged.of[field] = value
		}
	}
	for field, value := range merged.of {
		if word, _ := readWord(value); now.Sub(word.over()) > removedFor && !word.holds(now) {
			delete(merged.of, field)
			merged.horizon = max(merged.horizon, word.stamp)
		}
	}
	return merged
}
