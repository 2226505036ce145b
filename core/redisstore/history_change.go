package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// MaxHistory is how many changes of a policy's exceptions Redis keeps.
const MaxHistory = 100

// Change is a change of a policy's exceptions that somebody made: see [Store.History].
type Change struct {
	At     time.Time     // by the clock of Redis
	Kind   string        // override, remove (of an override), block, unblock, or restore: a process wrote back what Redis had lost
	Key    string        // as stores have it; "" for restore
	Limits []core.Limit  // of an override
	For    time.Duration // for how long it was to hold; 0: until it is removed
	By     string        // who made it, or ""
	Reason string        // and why
	Had    bool          // Redis had an exception of the key and kind before
	Lost   int           // of restore: how many exceptions and removals were written back
}

// Kinds of changes that are no fields of exceptions.
const removeKind, unblockKind, restoreKind = "remove", "unblock", "restore"

// restored is the JSON of a change that is a restore.
type restored struct {
	Lost int `json:"lost"`
}

// readChange reads a value of the history. It reports whether it can: exceptions.lua has the layout.
func readChange(value string) (c Change, ok bool) {
	size, rest, _ := strings.Cut(value, ":")
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > len(rest)-2 || rest[n+1] != ' ' {
		return c, false
	}
	field := rest[:n]
	w, ok := readWord(rest[n+2:])
	if !ok {
		return c, false
	}
	c.At, c.Had = time.UnixMilli(w.written).UTC(), rest[n] == '1'
	if field == restoreKind {
		var r restored
		err := json.Unmarshal([]byte(w.says), &r)
		c.Kind, c.Lost, c.Had = restoreKind, r.Lost, false
		return c, err == nil
	}
	var says said
	kind, key, _ := strings.Cut(field, ":")
	if key == "" || kind != blockField && kind != overrideField || json.Unmarshal([]byte(w.says), &says) != nil {
		return c, false
	}
	c.Kind, c.Key, c.Limits = kind, key, says.Limits
	c.By, c.Reason = printable.Clip(says.By, longestLine), printable.Clip(says.Reason, longestLine)
	switch {
	case w.end == removalEnd && kind == blockField:
		c.Kind = unblockKind
	case w.end == removalEnd:
		c.Kind = removeKind
	case w.end > 0:
		c.For = time.UnixMilli(w.end).Sub(c.At)
	}
	return c, true
}

// removalEnd is the end of a word that is a removal.
const removalEnd = 1

// appendPair appends two texts, each behind its length and a colon, as exceptions.lua reads them.
func appendPair(b []byte, field, value string) []byte {
	for _, text := range []string{field, value} {
		b = fmt.Appendf(b, "%d:%s", len(text), text)
	}
	return b
}
