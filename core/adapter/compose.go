package adapter

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Join limits by several keys together, such as route and user. It is injective, whatever bytes the
// keys hold: ("a:b", "c") and ("a", "b:c") differ. One missing key is missing from the whole. No keys, and a nil
// one, are mistakes.
func Join[C any, K ~func(C) (string, error)](keys ...K) K {
	if err := wrongKeys("Join", keys); err != nil {
		return broken[C, string](err)
	}
	return func(c C) (string, error) {
		parts := make([]string, len(keys))
		for i, key := range keys {
			part, err := call(key, c)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return core.JoinKey(parts...), nil
	}
}

// FirstOf limits by the first key that is not missing, such as an API key or else the address. An
// error other than [core.ErrNoKey] ends the search. No keys, and a nil one, are mistakes.
func FirstOf[C any, K ~func(C) (string, error)](keys ...K) K {
	if err := wrongKeys("FirstOf", keys); err != nil {
		return broken[C, string](err)
	}
	return func(c C) (string, error) {
		var missing missingErrors
		for _, key := range keys {
			k, err := call(key, c)
			if err == nil || !errors.Is(err, core.ErrNoKey) {
				return k, err
			}
			missing = append(missing, err)
		}
		return "", missing
	}
}

// missingErrors is why FirstOf found no key: one error for each.
type missingErrors []error

func (a missingErrors) Unwrap() []error { return a }

func (a missingErrors) Error() string {
	texts := make([]string, len(a))
	for i, err := range a {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// wrongKeys are the mistakes in keys that are to make one.
func wrongKeys[C any, K ~func(C) (string, error)](maker string, keys []K) error {
	if len(keys) == 0 {
		return &core.ConfigError{Field: maker, Value: 0, Reason: "keys: give it at least one, such as ByIP()"}
	}
	var errs []error
	for i, key := range keys {
		if key == nil {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("%s keys[%d]", maker, i), Value: nil, Reason: "must be a key function, such as ByIP()"})
			continue
		}
		errs = append(errs, Mistake[C, string](key))
	}
	return errors.Join(errs...)
}

// call asks a key function. An empty key is a missing one: it would silently make strangers share a
// bucket.
func call[C any, K ~func(C) (string, error)](key K, c C) (string, error) {
	k, err := key(c)
	if err == nil && k == "" {
		err = fmt.Errorf("%w: the key function returned an empty key", core.ErrNoKey)
	}
	return k, err
}
