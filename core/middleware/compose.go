package middleware

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Join limits by several keys together, such as route and user. It is injective for any bytes in the keys: ("a:b",
// "c") and ("a", "b:c") are different keys. If one of the keys is missing, so is the joined one. If there are no
// keys, or one is nil, New panics.
func Join[C any, K ~func(C) (string, error)](keys ...K) K {
	if err := keyMistakes("Join", keys); err != nil {
		return Invalid[C, string](err)
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

// FirstOf limits by the first key that is not missing, such as an API key or else the address. It stops at an error
// other than [core.ErrNoKey]. If there are no keys, or one is nil, New panics.
func FirstOf[C any, K ~func(C) (string, error)](keys ...K) K {
	if err := keyMistakes("FirstOf", keys); err != nil {
		return Invalid[C, string](err)
	}
	return func(c C) (string, error) {
		var missing missingKeys
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

// missingKeys is the error of FirstOf. It holds the error of each key.
type missingKeys []error

func (m missingKeys) Unwrap() []error { return m }

func (m missingKeys) Error() string {
	texts := make([]string, len(m))
	for i, err := range m {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// keyMistakes returns what is wrong with the keys that maker, such as "Join", got.
func keyMistakes[C any, K ~func(C) (string, error)](maker string, keys []K) error {
	if len(keys) == 0 {
		return &core.ConfigError{Field: maker, Value: 0, Reason: "keys given: it needs at least one, such as ByIP()"}
	}
	var errs []error
	for i, key := range keys {
		if key == nil {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("%s keys[%d]", maker, i), Value: nil, Reason: "must be a key function, such as ByIP()"})
			continue
		}
		errs = append(errs, ArgumentError[C, string](key))
	}
	return errors.Join(errs...)
}

// call returns the key of c. An empty key is a missing one: otherwise clients without a key would share a bucket.
func call[C any, K ~func(C) (string, error)](key K, c C) (string, error) {
	k, err := key(c)
	if err == nil && k == "" {
		err = fmt.Errorf("%w: the key function returned an empty key", core.ErrNoKey)
	}
	return k, err
}
