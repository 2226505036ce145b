package redisstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// MaxExceptions is how many exceptions a policy may have in Redis.
const MaxExceptions = 1000

// ErrExceptions is the error for an exception beyond [MaxExceptions].
var ErrExceptions = errors.New("ratelimit: the policy has " + strconv.Itoa(MaxExceptions) + " exceptions in Redis, and can have no more: remove some, or write them into the policy")

// Exception is an override or a block of one key that lives in Redis: see [Store.FollowExceptions].
type Exception struct {
	Key    string        // as stores have it: see [core.StoredKey]
	Limits []core.Limit  // the key's limits, all of them; none: the key is blocked
	For    time.Duration // how long it still holds, in milliseconds and by the clock of Redis; 0: until it is removed
	By     string        // who has set it, for people who read it: a line of at most 256 bytes, or ""
	Reason string        // and why
}

// Blocks reports whether e is a block, and no override.
func (e *Exception) Blocks() bool { return len(e.Limits) == 0 }

// kind is that of e's field.
func (e *Exception) kind() string {
	if e.Blocks() {
		return blockField
	}
	return overrideField
}

// Fields of the hash. A key can have a block and an override.
const blockField, overrideField = "block", "override"

// exceptionField names an exception in the hash. A key that is too long for a store stands for what stores have.
func exceptionField(kind, key string) string {
	if stored := core.StoredKey(key); len(stored) < len(key) {
		key = stored
	}
	return kind + ":" + key
}

// refusal returns what is wrong with e, or nil.
func (e *Exception) refusal(policy string) error {
	var errs []error
	if e.Key == "" {
		errs = append(errs, mistake.New("SetException key", e.Key, "is an empty key, which no request can have"))
	}
	if e.For < 0 || e.For > 0 && e.For < time.Millisecond {
		errs = append(errs, mistake.New("SetException for", e.For, "must be 0, or at least 1 ms"))
	}
	errs = append(errs, lineMistakes("SetException", e.By, e.Reason)...)
	limits := e.Limits
	if e.Blocks() {
		limits = []core.Limit{core.PerHour(1)}
	}
	errs = append(errs, fitting(policy, limits).Validate())
	return errors.Join(errs...)
}

// longestLine is how many bytes of who has said something, or why, are kept.
const longestLine = 256

// lineMistakes returns what is wrong with the arguments of a function that say who does something, and why.
func lineMistakes(function, by, reason string) (errs []error) {
	for _, said := range [][2]string{{"by", by}, {"reason", reason}} {
		if text := said[1]; len(text) > longestLine || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			errs = append(errs, mistake.New(function+" "+said[0], printable.Clip(text, 80), "must be one line of text, at most 256 bytes"))
		}
	}
	return errs
}

// fitting is a policy that can have an override of limits.
func fitting(policy string, limits []core.Limit) core.Policy {
	p := core.Policy{Name: policy, Limits: slices.Clone(limits)}
	for i, l := range limits {
		if l.Times != 0 { // it multiplies a limit of its name, or any
			p.Limits[i] = core.PerHour(1).WithName(cmp.Or(l.Name, "any"))
			p.Overrides = map[string][]core.Limit{"key": limits}
		}
	}
	return p
}

// A word is what an operator said last about a key: a field of the hash. exceptions.lua has its layout.
type word struct {
	stamp   int64  // orders words: the later one is higher, also if the clock of Redis steps back
	written int64  // in milliseconds, by the clock of the server that wrote it
	end     int64  // in milliseconds; 0: never; 1: it is a removal
	says    string // a said in JSON
}

// said is the JSON of a word. Readers ignore fields that they don't know.
type said struct {
	Blocked bool         `json:"blocked,omitempty"`
	Limits  []core.Limit `json:"limits,omitempty"`
	By      string       `json:"by,omitempty"`
	Reason  string       `json:"reason,omitempty"`
}

var numbers = regexp.MustCompile(`^(\d{1,16}) (\d{1,16}) (\d{1,16}) `)

// readWord reads a field's value. It reports whether it can: another program may have written it.
func readWord(value string) (w word, ok bool) {
	found := numbers.FindStringSubmatch(value)
	if found == nil {
		return w, false
	}
	for i, n := range []*int64{&w.stamp, &w.written, &w.end} {
		if *n, _ = strconv.ParseInt(found[i+1], 10, 64); *n >= 1<<52 {
			return w, false
		}
	}
	w.says = value[len(found[0]):]
	return w, true
}

func (w word) String() string { return fmt.Sprintf("%d %d %d %s", w.stamp, w.written, w.end, w.says) }

// holds reports whether w is in force at an instant: it is no removal, and has not ended.
func (w word) holds(now time.Time) bool { return w.end == 0 || w.end > now.UnixMilli() }

// removedFor is how long a removal, or an exception that has ended, stays a word.
const removedFor = 24 * time.Hour

// over is the instant since which w, which does not hold, is not in force.
func (w word) over() time.Time { return time.UnixMilli(max(w.written, w.end)) }

// readExceptions reads fields at a time of Redis, and leaves out what has ended. The error says how many fields can't be read.
func readExceptions(policy string, fields map[string]string, now time.Time) (list []Exception, err error) {
	var errs []error
	unreadable, kinds := 0, make(map[string]bool)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if field == "" { // the version
			continue
		}
		w, ok := readWord(fields[field])
		if ok && !w.holds(now) {
			continue
		}
		e, known := w.exception(policy, field, now)
		if ok = ok && known; ok {
			list = append(list, e)
			continue
		}
		unreadable++
		if kind, _, known := strings.Cut(field, ":"); known && len(kinds) < 3 { // without a colon it may be a key
			kinds[printable.Clip(kind, limit.MaxName)+":…"] = true
		}
	}
	if unreadable > 0 {
		such := ""
		if len(kinds) > 0 {
			such = " (" + strings.Join(slices.Sorted(maps.Keys(kinds)), ", ") + ")"
		}
		errs = append(errs, fmt.Errorf("%d exceptions of policy %q can't be read%s: another version of this package may have written them", unreadable, policy, such))
	}
	if len(list) > MaxExceptions {
		errs = append(errs, fmt.Errorf("policy %q has %d exceptions, and only the first %d are read", policy, len(list), MaxExceptions))
		list = list[:MaxExceptions]
	}
	slices.SortStableFunc(list, func(a, b Exception) int { return cmp.Compare(a.Key, b.Key) })
	return list, errors.Join(errs...)
}

// exception returns what w, which holds, says of a field. It reports whether it is known.
func (w word) exception(policy, field string, now time.Time) (e Exception, ok bool) {
	kind, key, _ := strings.Cut(field, ":")
	var says said
	if key == "" || json.Unmarshal([]byte(w.says), &says) != nil {
		return e, false
	}
	e.By, e.Reason = printable.Clip(says.By, longestLine), printable.Clip(says.Reason, longestLine) // another program may have written more
	if e.Key = key; w.end > 0 {
		e.For = time.UnixMilli(w.end).Sub(now).Truncate(time.Millisecond)
	}
	switch kind {
	case overrideField:
		e.Limits = says.Limits
		return e, !says.Blocked && fitting(policy, e.Limits).Validate() == nil
	case blockField:
		return e, says.Blocked && says.Limits == nil
	}
	return e, false
}
