package adminlimit

import (
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/spelling"
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
	mistakes := make(map[string]int)
	for _, other := range h.known(l) {
		if other == key || oncall.StoredKey(other) == oncall.StoredKey(key) {
			return nil // it is known
		}
		if n, near := apart(key, other); near {
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

// longest is the longest value that people misspell.
const longest = 64

// apart returns how many mistakes in typing make b of a, in what follows the
// kind and the name of a field that both have. If they have none in common, a
// may lack them. It reports false if there are more than a third of its
// letters.
func apart(a, b string) (mistakes int, near bool) {
	same := 0
	for i := 0; i < len(a) && i < len(b) && a[i] == b[i]; i++ {
		if a[i] == ':' {
			same = i + 1
		}
	}
	a, b = a[same:], b[same:]
	if len(a) > longest {
		return 0, false
	}
	mistakes = len(a)
	for rest, more := b, true; more; {
		if len(rest) <= longest {
			mistakes = min(mistakes, spelling.Distance(a, rest))
		}
		if _, rest, more = strings.Cut(rest, ":"); same > 0 {
			break
		}
	}
	return mistakes, mistakes <= max(1, len(a)/3) && mistakes < len(a)
}
