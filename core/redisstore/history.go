package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// History returns the last [MaxHistory] changes of a policy's exceptions, the
// newest first. Redis keeps them for as long as the exceptions, and loses them
// with its memory: the history then begins with a restore. Changes that can't
// be read are left out. It costs one round trip.
func (s *Store) History(ctx context.Context, policy string) ([]Change, error) {
	fields, err := s.historyFields(ctx, policy)
	if err != nil {
		return nil, err
	}
	byStamp := make(map[uint64]Change)
	for field, value := range fields {
		stamp, err := strconv.ParseUint(field, 10, 64)
		if c, ok := readChange(value); err == nil && ok {
			byStamp[stamp] = c
		}
	}
	stamps := slices.Sorted(maps.Keys(byStamp))
	slices.Reverse(stamps)
	changes := make([]Change, 0, len(stamps))
	for _, stamp := range stamps[:min(len(stamps), MaxHistory)] {
		changes = append(changes, byStamp[stamp])
	}
	return changes, nil
}

// CopyHistory adds the changes of a policy's exceptions to those that another
// store, or the same one, has of the policy as. For tools.
func (s *Store) CopyHistory(ctx context.Context, policy string, to *Store, as string) error {
	fields, err := s.historyFields(ctx, policy)
	if err != nil || len(fields) == 0 {
		return err
	}
	var pairs []byte
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := readChange(fields[field]); ok {
			pairs = appendPair(pairs, field, fields[field])
		}
	}
	return to.ask(ctx, as, func(ctx context.Context) error {
		_, err := to.batches.changeExceptions(ctx, as, "note", pairs)
		return err
	})
}

// ForgetHistory drops the changes of a key from the history of a policy, and
// returns how many. For tools that delete a customer's data.
func (s *Store) ForgetHistory(ctx context.Context, policy, key string) (dropped int64, err error) {
	fields, err := s.historyFields(ctx, policy)
	if err != nil {
		return 0, err
	}
	var stamps []string
	for field, value := range fields {
		if c, ok := readChange(value); ok && c.Key == store.Key(key) {
			stamps = append(stamps, field)
		}
	}
	if len(stamps) == 0 {
		return 0, nil
	}
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		dropped, err = s.batches.client.HDel(ctx, s.batches.historyKey(policy), stamps...).Result()
		return err
	})
	return dropped, err
}

// mostForeign is how many fields a hash may have that is read as a whole, as in
// exceptions.lua.
const mostForeign = 10_000

// historyFields reads the hash of a policy's history.
func (s *Store) historyFields(ctx context.Context, policy string) (fields map[string]string, err error) {
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		key := s.batches.historyKey(policy)
		if key == "" {
			return errors.New("a prefix with half a hash tag has no history of exceptions: give the store one without { and }")
		}
		// A user may lack the right to the first command.
		if n := s.batches.client.HLen(ctx, key).Val(); n > mostForeign {
			return foreignKey(key, serverError(fmt.Sprintf("FOREIGN %d fields: reading them would keep Redis from its work", n)))
		}
		fields, err = s.batches.client.HGetAll(ctx, key).Result()
		return foreignKey(key, err)
	})
	return fields, err
}

// MaxHistory is how many changes of a policy's exceptions Redis keeps.
const MaxHistory = 100

// Change is a change of a policy's exceptions that somebody made: see
// [Store.History].
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

// readChange reads a value of the history. It reports whether it can:
// exceptions.lua has the layout.
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
	kind, key, _ := strings.Cut(field, ":")
	says, ok := w.said()
	if !ok || key == "" || kind != blockField && kind != overrideField {
		return c, false
	}
	c.Kind, c.Key, c.Limits, c.By, c.Reason = kind, key, says.Limits, says.By, says.Reason
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

// appendPair appends two texts, each behind its length and a colon, as
// exceptions.lua reads them.
func appendPair(b []byte, field, value string) []byte {
	for _, text := range []string{field, value} {
		b = fmt.Appendf(b, "%d:%s", len(text), text)
	}
	return b
}
