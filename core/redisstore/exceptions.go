package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/percent"
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
}

// Blocks reports whether e is a block, and no override.
func (e *Exception) Blocks() bool { return len(e.Limits) == 0 }

// Fields of the hash. A key can have a block and an override.
const blockField, overrideField = "block", "override"

// exceptionField names an exception in the hash. A key that is too long for a store stands for what stores have.
func exceptionField(kind, key string) string {
	if stored := core.StoredKey(key); len(stored) < len(key) {
		key = stored
	}
	return kind + ":" + key
}

// SetException writes an exception of a policy into Redis, in place of one that the key has of its kind. Processes that call
// [Store.FollowExceptions] obey it within two seconds. The error is [ErrExceptions], a [core.ConfigError] of each mistake, or that of the
// call. It costs one round trip, or two if Redis does not know the script yet.
func (s *Store) SetException(ctx context.Context, policy string, e Exception) error {
	if err := e.refusal(policy); err != nil {
		return err
	}
	kind, value := blockField, "blocked"
	if !e.Blocks() {
		text, err := json.Marshal(e.Limits)
		if err != nil {
			return err
		}
		kind, value = overrideField, string(text)
	}
	_, err := s.writeException(ctx, policy, exceptionField(kind, e.Key), value, e.For)
	return err
}

// Unblock removes the block of a key. It reports whether there was one.
func (s *Store) Unblock(ctx context.Context, policy, key string) (was bool, err error) {
	return s.writeException(ctx, policy, exceptionField(blockField, key), "", 0)
}

// EndOverride removes the override of a key. It reports whether there was one.
func (s *Store) EndOverride(ctx context.Context, policy, key string) (was bool, err error) {
	return s.writeException(ctx, policy, exceptionField(overrideField, key), "", 0)
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

// refusal returns what is wrong with e, or nil.
func (e *Exception) refusal(policy string) error {
	var errs []error
	if e.Key == "" {
		errs = append(errs, mistake.New("SetException key", e.Key, "is an empty key, which no request can have"))
	}
	if e.For < 0 || e.For > 0 && e.For < time.Millisecond {
		errs = append(errs, mistake.New("SetException for", e.For, "must be 0, or at least 1 ms"))
	}
	limits := e.Limits
	if e.Blocks() {
		limits = []core.Limit{core.PerHour(1)}
	}
	errs = append(errs, core.Policy{Name: policy, Limits: limits}.Validate())
	return errors.Join(errs...)
}

// exceptionsScript reads and writes exceptions. A reader needs the time of the server that has them: a client of several servers sends
// TIME to any of them.
var exceptionsScript = redis.NewScript(exceptionsText)

//go:embed exceptions.lua
var exceptionsText string

// exceptionsKey returns the Redis key of a policy's exceptions. No bucket has it: a bare "%" begins no policy in [redisKey].
func (s *batches) exceptionsKey(policy string) string {
	var b strings.Builder
	b.WriteString(s.prefix + "%exceptions:")
	percent.Escape(&b, policy, ":{}%")
	return b.String()
}

// exceptionsError returns err of a call for a policy's exceptions as messages show it.
func (s *batches) exceptionsError(policy string, err error) error {
	err = withoutArguments(err)
	if ofExceptionsKey(err) {
		return fmt.Errorf("the Redis key %q is not of this package: rename it, or give the store another prefix: %w", s.exceptionsKey(policy), err)
	}
	return err
}

// ofExceptionsKey reports whether err is about the key that has a policy's exceptions, and not about Redis.
func ofExceptionsKey(err error) bool {
	text := serverText(err)
	return strings.HasPrefix(text, "WRONGTYPE") || strings.HasPrefix(text, "FOREIGN")
}

// writeException sets a field, or removes it if value is "".
func (s *Store) writeException(ctx context.Context, policy, field, value string, lasts time.Duration) (was bool, err error) {
	if err := s.mistaken(); err != nil {
		return false, err
	}
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, s.batches.server.ConnectTimeout())
	defer cancel()
	n, err := exceptionsScript.Run(ctx, s.batches.server.client, []string{s.batches.exceptionsKey(policy)}, field, value, lasts.Milliseconds(), MaxExceptions).Int()
	switch {
	case err != nil:
		return false, &failure{inPolicy(policy), s.batches.exceptionsError(policy, err)}
	case n < 0:
		return false, ErrExceptions
	}
	return n > 0, nil
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

// readExceptions reads fields at a time of Redis, and leaves out what has ended. The error says how many fields can't be read.
func readExceptions(policy string, fields map[string]string, now time.Time) (list []Exception, err error) {
	var errs []error
	unreadable, kinds := 0, make(map[string]bool)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if field == "" { // the version
			continue
		}
		e, ok := readException(policy, field, fields[field], now)
		switch {
		case !ok:
			unreadable++
			if kind, _, known := strings.Cut(field, ":"); known && len(kinds) < 3 { // without a colon it may be a key
				kinds[printable.Clip(kind, limit.MaxName)+":…"] = true
			}
		case e.For >= 0:
			list = append(list, e)
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

// readException reads one field, and reports whether it can. For is below 0 if the exception has ended.
func readException(policy, field, value string, now time.Time) (e Exception, ok bool) {
	kind, key, _ := strings.Cut(field, ":")
	end, text, _ := strings.Cut(value, " ")
	ends, err := strconv.ParseInt(end, 10, 64)
	if err != nil || ends < 0 || ends > 1<<52 || key == "" {
		return e, false
	}
	if e.Key = key; ends > 0 {
		if e.For = time.UnixMilli(ends).Sub(now).Truncate(time.Millisecond); e.For <= 0 {
			e.For = -1
		}
	}
	if kind == overrideField {
		return e, json.Unmarshal([]byte(text), &e.Limits) == nil && (core.Policy{Name: policy, Limits: e.Limits}).Validate() == nil
	}
	return e, kind == blockField && text == "blocked"
}
