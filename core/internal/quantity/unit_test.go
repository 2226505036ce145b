package quantity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// A unit that nobody charges never denies: what is probably a mistake is
// refused, with what was meant.
func TestBadUnit(t *testing.T) {
	for reason, units := range map[string]string{
		"looks like requests":     "req reqs request requets reqeusts reqests rquests equests rqs rps rpm request: req.",
		"a word of limits":        "rate limit burst per every each in from name mode unit capacity refill_rate refill_interval location anchor limits rate-limit times per: burst:",
		"the number in digits":    "thousand million bn",
		"too short for a unit":    "r k m x s h d w n t",
		"must not have capitals":  "Tokens REQUESTS tokenS",
		"write \"requests\"":      "Requests REQUESTS",
		"begin or end with space": "",
	} {
		for unit := range strings.FieldsSeq(units) {
			require.Contains(t, quantity.BadUnit(unit), reason, "%q", unit)
		}
	}
	for _, unit := range []string{" tokens", "tokens ", "tokens per", "per tokens"} {
		require.NotEmpty(t, quantity.BadUnit(unit), "%q", unit)
	}
	for _, unit := range []string{"requests", "tokens", "token", "bytes", "gb", "kb", "input-tokens", "tokens-in", "emails", "images", "words", "calls", "hits", "attempts",
		"seconds", "minutes", "ms", "quests", "3d", "gpu hours", "queries", "requesters/h"} {
		require.Empty(t, quantity.BadUnit(unit), "%q", unit)
	}
}

// Every misspelling of requests by one or two letters is found.
func TestMisspelledRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := []byte(quantity.Requests)
		mistakes := rapid.IntRange(1, 2).Draw(t, "mistakes")
		for range mistakes {
			at := rapid.IntRange(1, len(word)-2).Draw(t, "at") // after the first letter
			switch letter := byte(rapid.IntRange('a', 'z').Draw(t, "letter")); rapid.IntRange(mistakes-2, 2).Draw(t, "kind") {
			case 0:
				word = append(word[:at], word[at+1:]...)
			case 1:
				word[at] = letter
			case 2:
				word = append(word[:at], append([]byte{letter}, word[at:]...)...)
			case -1: // letters that are exchanged are one mistake, unless another is between them
				word[at], word[at+1] = word[at+1], word[at]
			}
		}
		if unit := string(word); unit != quantity.Requests && quantity.BadUnit(unit) == "" {
			t.Fatalf("%q looks like requests, and is taken as a unit", unit)
		}
	})
}
