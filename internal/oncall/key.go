package oncall

import (
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// hashed begins a key that stores have in place of a longer one.
const hashed = "sha256:"

// StoredKey returns the stored form of a key that someone gives: as the app makes it, or as Redis, logs of stores and reports of who is
// denied have a long one. [core.Limiter.WithStoredKeys] takes it.
func StoredKey(given string) string {
	if digits, ok := strings.CutPrefix(given, hashed); ok && IsHex(digits, 64) {
		return given
	}
	return core.StoredKey(given)
}

// IsHex reports whether s has so many hex digits and nothing else.
func IsHex(s string, digits int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == digits
}

// LogDigits is how many hex digits [core.LogKey] returns.
const LogDigits = 12

// Limits returns the limits of a key, in its stored form, and who gave it limits of its own: see Blocker.
func Limits(l *core.Limiter, key string) (limits []core.Limit, by string) {
	if limits, ok := l.Exceptions().Overrides[key]; ok {
		return limits, operator
	}
	p := l.Policy()
	for other, limits := range p.Overrides {
		if core.StoredKey(other) == key {
			return limits, file
		}
	}
	return p.Limits, ""
}

// Blocker returns who blocks a key, in its stored form: the policy, an operator, or "" for nobody.
func Blocker(l *core.Limiter, key string) string {
	e := l.Exceptions()
	if slices.Contains(e.Blocked, key) {
		return operator
	}
	if _, raised := e.Overrides[key]; !raised && slices.ContainsFunc(l.Policy().Blocked, func(blocked string) bool { return core.StoredKey(blocked) == key }) {
		return file
	}
	return ""
}

const operator, file = "an operator", "the policy"

// Request returns what a request commonly takes of a key, in its stored form: one of each unit that the key's limits count.
func Request(l *core.Limiter, key string) core.Units {
	units := core.Units{core.Requests: 0}
	limits, _ := Limits(l, key)
	for _, limit := range limits {
		units[Unit(limit)] = 1
	}
	return units
}

// Unit is what a limit counts.
func Unit(l core.Limit) string {
	if l.Unit == "" {
		return core.Requests
	}
	return l.Unit
}
