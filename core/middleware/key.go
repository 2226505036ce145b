package middleware

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Join limits by several keys together, such as route and user. Its key is
// theirs with '|' between them, such as "route:/items/:id|x-api-key:ann". Keys
// of extractors and of [core.JoinKey] stay as they are. Any other string that
// has a '|' or a '%', is another Join, or has more than 512 bytes, is encoded or
// hashed behind "%=", so different keys never make the same one. If one of the
// keys is missing, so is the joined one. If there are no keys, or one is nil,
// New panics.
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
		return joinKeys(parts), nil
	}
}

// FirstOf limits by the first key that is not missing, such as an API key or
// else the address. It stops at an error other than [core.ErrNoKey]. If there
// are no keys, or one is nil, New panics.
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

// keyMistakes returns what is wrong with the keys that maker got.
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

// call returns the key of c. An empty one is missing: clients would share it.
func call[C any, K ~func(C) (string, error)](key K, c C) (string, error) {
	k, err := key(c)
	if err == nil && k == "" {
		err = fmt.Errorf("%w: the key function returned an empty key", core.ErrNoKey)
	}
	return k, err
}

// maxPlain is the length of the longest key that Join takes as it is, in bytes.
// Extractors make no longer ones, unless their names are very long.
const maxPlain = 512

// joinKeys joins keys with '|'. Different lists never make the same key,
// whatever bytes they hold. A key that [isPlain] stays as it is: those of
// extractors and of core.JoinKey. Any other becomes "%=" and the key with '%'
// and '|' percent-encoded, or "%=sha256:" and its SHA-256 if it is long.
//
// So no part has a '|', and "%=" is in no plain key. What follows "%=" has a
// "%7C" or "%25", or it is a hash, which has neither.
func joinKeys(keys []string) string {
	n := len(keys)
	for _, key := range keys {
		n += min(len(key), maxPlain)
	}
	var b strings.Builder
	b.Grow(n)
	for i, key := range keys {
		if i > 0 {
			b.WriteByte('|')
		}
		switch {
		case isPlain(key):
			b.WriteString(key)
		case len(key) > maxPlain:
			b.WriteString("%=sha256:")
			b.WriteString(printable.Digest(key))
		default:
			b.WriteString("%=")
			printable.Percent(&b, key, "%|")
		}
	}
	return b.String()
}

// isPlain reports whether a key can stand in a joined one: it is not long, has
// no '|', and each '%' in it begins what extractors and core.JoinKey write.
func isPlain(key string) bool {
	if len(key) > maxPlain || strings.IndexByte(key, '|') >= 0 {
		return false
	}
	for {
		i := strings.IndexByte(key, '%')
		if i < 0 {
			return true
		}
		key = key[i:]
		switch {
		case strings.HasPrefix(key, "%25"), strings.HasPrefix(key, "%3A"), strings.HasPrefix(key, "%7C"), strings.HasPrefix(key, printable.HashMark):
			key = key[1:]
		default:
			return false
		}
	}
}
