package oncall

import (
	"encoding/hex"
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

// Unit is what a limit counts.
func Unit(l core.Limit) string {
	if l.Unit == "" {
		return core.Requests
	}
	return l.Unit
}
