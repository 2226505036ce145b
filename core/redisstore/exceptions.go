package redisstore

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/hashslot"
)

// SetException writes an exception of a policy into Redis, in place of one that the key has of its kind. Processes that call
// [Store.FollowExceptions] obey it within two seconds, and write it again if Redis loses it. The error is [ErrExceptions], a
// [core.ConfigError] of each mistake, or that of the call. It costs one round trip, or two if Redis does not know the script yet.
func (s *Store) SetException(ctx context.Context, policy string, e Exception) error {
	return s.setException(ctx, policy, e, true)
}

// CopyException is SetException for tools that copy: [Store.History] does not have it. [Store.CopyHistory] copies that.
func (s *Store) CopyException(ctx context.Context, policy string, e Exception) error {
	return s.setException(ctx, policy, e, false)
}

func (s *Store) setException(ctx context.Context, policy string, e Exception, note bool) error {
	if err := e.refusal(policy); err != nil {
		return err
	}
	_, err := s.writeWord(ctx, policy, exceptionField(e.kind(), e.Key), said{Blocked: e.Blocks(), Limits: e.Limits, By: e.By, Reason: e.Reason}, e.For.Milliseconds(), note)
	return err
}

// Removal ends an exception.
type Removal struct {
	Key      string
	Override bool   // it ends the key's override, and otherwise its block
	By       string // who ends it, for people who read it: a line of at most 256 bytes, or ""
	Reason   string // and why
}

// RemoveException removes an exception of a key. It reports whether Redis had one. If it has none, because it has lost it, processes may
// still have one: they end it too. So the removal stays in Redis for a day, with the key. Errors are those of SetException.
func (s *Store) RemoveException(ctx context.Context, policy string, r Removal) (was bool, err error) {
	if err := errors.Join(lineMistakes("RemoveException", r.By, r.Reason)...); err != nil {
		return false, err
	}
	kind := blockField
	if r.Override {
		kind = overrideField
	}
	return s.writeWord(ctx, policy, exceptionField(kind, r.Key), said{By: r.By, Reason: r.Reason}, removal, true)
}

// Unblock is RemoveException of a block, by nobody known.
func (s *Store) Unblock(ctx context.Context, policy, key string) (was bool, err error) {
	return s.RemoveException(ctx, policy, Removal{Key: key})
}

// EndOverride is RemoveException of an override, by nobody known.
func (s *Store) EndOverride(ctx context.Context, policy, key string) (was bool, err error) {
	return s.RemoveException(ctx, policy, Removal{Key: key, Override: true})
}

// Exceptions returns the exceptions of a policy that are in Redis, sorted by key. Those that can't be read, such as those of a later
// version of this package, are left out: the error joins why, and is that of the call if nothing could be read.
func (s *Store) Exceptions(ctx context.Context, policy string) ([]Exception, error) {
	if err := s.mistaken(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	fields, now, err := s.batches.exceptions(ctx, policy)
	if err != nil {
		return nil, &failure{inPolicy(policy), s.batches.exceptionsError(policy, err)}
	}
	return readExceptions(policy, fields, now)
}

// EndedExceptions returns the keys of a policy whose block, or override, was removed or has ended in the last day. Tools that write what
// they have read elsewhere must not bring these back.
func (s *Store) EndedExceptions(ctx context.Context, policy string) (blocks, overrides []string, err error) {
	if err := s.mistaken(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	fields, now, err := s.batches.exceptions(ctx, policy)
	if err != nil {
		return nil, nil, &failure{inPolicy(policy), s.batches.exceptionsError(policy, err)}
	}
	for field, value := range wordsOf(fields).of {
		if w, _ := readWord(value); w.holds(now) {
			continue
		}
		switch kind, key, _ := strings.Cut(field, ":"); kind {
		case blockField:
			blocks = append(blocks, key)
		case overrideField:
			overrides = append(overrides, key)
		}
	}
	return blocks, overrides, nil
}

// exceptionsScript reads and changes exceptions. A reader needs the time of the server that has them: a client of several servers sends
// TIME to any of them.
var exceptionsScript = redis.NewScript(exceptionsText)

//go:embed exceptions.lua
var exceptionsText string

// exceptionsKey returns the Redis key of a policy's exceptions. No bucket has it: a bare "%" begins no policy in [redisKey].
func (s *batches) exceptionsKey(policy string) string {
	var b strings.Builder
	b.WriteString(s.prefix + "%exceptions:")
	printable.Percent(&b, policy, ":{}%")
	return b.String()
}

// historyKey returns the Redis key of a policy's history, which is in the Cluster slot of its exceptions, for one script has both. No bucket
// has it. A prefix with half a hash tag leads elsewhere: then there is no history, and the key is "".
func (s *batches) historyKey(policy string) string {
	var b strings.Builder
	b.WriteString(s.prefix + "%history:")
	exceptions := s.exceptionsKey(policy)
	printable.Percent(&b, policy, ":{}%")
	for _, key := range []string{s.prefix + "%history:{" + exceptions + "}", b.String()} {
		if hashslot.Of(key) == hashslot.Of(exceptions) {
			return key
		}
	}
	return ""
}

// exceptionKeys returns the keys that exceptions.lua changes.
func (s *batches) exceptionKeys(policy string) []string {
	keys := []string{s.exceptionsKey(policy)}
	if history := s.historyKey(policy); history != "" {
		keys = append(keys, history)
	}
	return keys
}

// ExceptionsVersion returns the version of a policy's exceptions in Redis, which those who follow them obey: see [core.Following]. It costs
// one round trip.
func (s *Store) ExceptionsVersion(ctx context.Context, policy string) (version int64, err error) {
	if err := s.mistaken(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	text, err := s.batches.version(ctx, policy)
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, &failure{inPolicy(policy), s.batches.exceptionsError(policy, err)}
	}
	return wordsOf(map[string]string{"": text}).top, nil
}

func (s *batches) version(ctx context.Context, policy string) (text string, err error) {
	defer recovered(&err)
	return s.server.client.HGet(ctx, s.exceptionsKey(policy), "").Result()
}

// exceptionsError returns err of a call for a policy's exceptions as messages show it.
func (s *batches) exceptionsError(policy string, err error) error {
	return foreignKey(s.exceptionsKey(policy), err)
}

// foreignKey returns err of a call for a Redis key of exceptions, or of their history, as messages show it.
func foreignKey(key string, err error) error {
	err = withoutArguments(err)
	if ofExceptionsKey(err) {
		return fmt.Errorf("the Redis key %q is not of this package: rename it, or give the store another prefix: %w", key, err)
	}
	return err
}

// ofExceptionsKey reports whether err is about the key that has a policy's exceptions, and not about Redis.
func ofExceptionsKey(err error) bool {
	text := serverText(err)
	return strings.HasPrefix(text, "WRONGTYPE") || strings.HasPrefix(text, "FOREIGN")
}

// removal is for how long a word holds that ends another one.
const removal = -1

// writeWord writes what an operator says now, and for how many milliseconds it holds. note: also into the history. It reports whether there
// was an exception.
func (s *Store) writeWord(ctx context.Context, policy, field string, says said, lasts int64, note bool) (was bool, err error) {
	text, err := json.Marshal(says)
	if err != nil {
		return false, err
	}
	if err := s.mistaken(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	n, err := s.batches.changeExceptions(ctx, policy, "set", field, string(text), lasts, MaxExceptions, nonce(), note)
	switch {
	case err != nil:
		return false, &failure{inPolicy(policy), err}
	case n < 0:
		return false, ErrExceptions
	}
	return n > 0, nil
}

// changeExceptions has the script change the exceptions of a policy.
func (s *batches) changeExceptions(ctx context.Context, policy string, args ...any) (n int, err error) {
	defer recovered(&err)
	n, err = exceptionsScript.Run(ctx, s.server.client, s.exceptionKeys(policy), args...).Int()
	return n, s.exceptionsError(policy, err)
}

// exceptions reads the fields of a policy, and the time of their server.
func (s *batches) exceptions(ctx context.Context, policy string) (fields map[string]string, now time.Time, err error) {
	defer recovered(&err)
	reply := exceptionsScript.Run(ctx, s.server.client, []string{s.exceptionsKey(policy)})
	parts, err := reply.Slice()
	if err != nil {
		return nil, now, err
	}
	at, known := parts[0].(int64)
	list, ok := parts[1].([]any)
	if !known || !ok {
		return nil, now, fmt.Errorf("unexpected reply of %d parts", len(parts))
	}
	fields = make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		fields[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return fields, time.UnixMilli(at), nil
}
