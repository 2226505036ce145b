package adminlimit

import (
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// mostNear is how many keys an answer names that somebody may have meant.
const mostNear = 3

// known returns the keys that this process knows: those that are denied most,
// blocked, or have limits of their own.
func (h *Handler) known(l *core.Limiter) []string {
	p, e := l.Policy(), l.Exceptions()
	known := slices.Concat(p.Blocked, e.Blocked, slices.Collect(maps.Keys(p.Overrides)), slices.Collect(maps.Keys(e.Overrides)))
	if h.denied != nil && !h.denied.Hashed() {
		for _, denied := range h.denied.Report().Policies {
			for _, k := range denied.Keys {
				if denied.Policy == p.Name {
					known = append(known, k.Key)
				}
			}
		}
	}
	return known
}

// nearest returns the known keys that somebody may have meant by one, as they
// are shown, the nearest first. Where keys are hashes there are none.
func (h *Handler) nearest(l *core.Limiter, key string) (shown []string) {
	if h.hashed() {
		return nil
	}
	given, mistakes := keyparts.Of(oncall.StoredKey(key)), make(map[string]int)
	for _, other := range h.known(l) {
		if other == key || oncall.StoredKey(other) == oncall.StoredKey(key) {
			return nil // it is known
		}
		if n, near := given.Distance(keyparts.Of(oncall.StoredKey(other))); near {
			mistakes[other] = n
		}
	}
	keys := slices.SortedFunc(maps.Keys(mistakes), func(a, b string) int {
		if d := mistakes[a] - mistakes[b]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, near := range keys[:min(len(keys), mostNear)] {
		shown = append(shown, oncall.ShownKey(near))
	}
	return shown
}
