package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
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

// kind is that of e's field.
func (e *Exception) kind() string {
	if e.Blocks() {
		return blockField
	}
	return overrideField
}

// Fields of the hash. A key can have a block and an override.
const blockField, overrideField = "block", "override"

// exceptionField names an exception in the hash. A key that is too long for a
// store stands for what stores have.
func exceptionField(kind, key string) string {
	if stored := store.Key(key); len(stored) < len(key) {
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

// lineMistakes returns what is wrong with who does something, and why, as a
// function's arguments say it.
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

// SetException writes an exception of a policy into Redis, in place of one that
// the key has of its kind. Processes that call [Store.FollowExceptions] obey it
// within two seconds, and write it again if Redis loses it. The error is
// [ErrExceptions], a [core.ConfigError] of each mistake, or that of the call.
// It costs one round trip, or two if Redis does not know the script yet.
func (s *Store) SetException(ctx context.Context, policy string, e Exception) error {
	if err := e.refusal(policy); err != nil {
		return err
	}
	_, err := s.writeWord(ctx, policy, exceptionField(e.kind(), e.Key), said{Blocked: e.Blocks(), Limits: e.Limits, By: e.By, Reason: e.Reason}, e.For.Milliseconds())
	return err
}

// Removal ends an exception.
type Removal struct {
	Key      string
	Override bool   // it ends the key's override, and otherwise its block
	By       string // who ends it, for people who read it: a line of at most 256 bytes, or ""
	Reason   string // and why
}

// RemoveException removes an exception of a key. It reports whether Redis had
// one. Processes that have one which Redis has lost end it too: the removal
// stays in Redis for a day, with the key. Errors are those of SetException.
func (s *Store) RemoveException(ctx context.Context, policy string, r Removal) (was bool, err error) {
	if err := errors.Join(lineMistakes("RemoveException", r.By, r.Reason)...); err != nil {
		return false, err
	}
	kind := blockField
	if r.Override {
		kind = overrideField
	}
	return s.writeWord(ctx, policy, exceptionField(kind, r.Key), said{By: r.By, Reason: r.Reason}, removal)
}

// Exceptions returns the exceptions of a policy that are in Redis, sorted by
// key. Those that can't be read, such as those of a later version of this
// package, are left out: the error joins why, and is that of the call if
// nothing could be read.
func (s *Store) Exceptions(ctx context.Context, policy string) ([]Exception, error) {
	words, now, err := s.words(ctx, policy)
	if err != nil {
		return nil, err
	}
	return words.exceptions(policy, now)
}

// words returns what Redis has of a policy's exceptions, and when, by its
// clock.
func (s *Store) words(ctx context.Context, policy string) (w words, now time.Time, err error) {
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		var fields map[string]string
		fields, now, err = s.batches.exceptions(ctx, policy)
		w = wordsOf(fields)
		return err
	})
	return w, now, err
}

// exceptionsScript reads and changes exceptions. A script reads, because its
// reader needs the time of the server that has them.
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

// removal is for how long a word holds that ends another one.
const removal = -1

// writeWord writes what an operator says now, and for how many milliseconds it
// holds. It reports whether there was an exception.
func (s *Store) writeWord(ctx context.Context, policy, field string, says said, lasts int64) (was bool, err error) {
	text, err := json.Marshal(says)
	if err != nil {
		return false, err
	}
	var n int
	err = s.ask(ctx, policy, func(ctx context.Context) error {
		n, err = s.batches.changeExceptions(ctx, policy, "set", field, string(text), lasts, MaxExceptions, nonce())
		return err
	})
	if n < 0 {
		err = ErrExceptions
	}
	return n > 0, err
}

// changeExceptions has the script change the exceptions of a policy.
func (s *batches) changeExceptions(ctx context.Context, policy string, args ...any) (n int, err error) {
	defer recovered(&err)
	key := s.exceptionsKey(policy)
	n, err = exceptionsScript.Run(ctx, s.client, []string{key}, args...).Int()
	return n, foreignKey(key, err)
}

// exceptions reads the fields of a policy, and the time of their server.
func (s *batches) exceptions(ctx context.Context, policy string) (fields map[string]string, now time.Time, err error) {
	key := s.exceptionsKey(policy)
	parts, err := exceptionsScript.Run(ctx, s.client, []string{key}).Slice()
	if err != nil {
		return nil, now, foreignKey(key, err)
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
