package adapter

import (
	"cmp"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/forwarded"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// unread is a warning that a trusted proxy has not said who its client is, so
// that all its clients share the proxy's bucket. The zero value is none.
type unread struct {
	requests int64  // for which the warning stands
	field    string // that the proxy should have written
	element  string // what it wrote; "": nothing
}

const unreadMessage = "ratelimit: a trusted proxy does not say which address its client has, so all its clients share the proxy's bucket"

// log logs u about a request with this path, and its peer. Digits of the element
// are shown as 0: the log has no addresses of clients.
func (u unread) log(log *slog.Logger, path, peer string) {
	if addr, _, ok := forwarded.ParseAddr(peer); ok {
		peer = forwarded.Plain(addr).String()
	}
	shown := strings.Map(func(r rune) rune {
		if r >= '1' && r <= '9' {
			return '0'
		}
		return r
	}, printable.Clip(u.element, 80))
	log.Warn(unreadMessage, "code", "RL722", "requests", u.requests, "path", path, "peer", peer, "header", u.field, "value", cmp.Or(shown, "(missing)"))
}

// unreads has what a finder has warned of. A proxy that sends nothing may ask
// on its own behalf, such as for a health check, so that is logged once. What
// can't be read is logged at most once a minute.
type unreads struct {
	mu      sync.Mutex // guards all
	missing bool       // was logged
	logged  time.Time  // when something that can't be read was
	since   int64      // requests that were not logged
}

// warnEvery is how often what can't be read is logged at most.
const warnEvery = time.Minute

// unread returns the warning about a request of c, whose network was found, if
// it is to be logged now.
func (f *finder) unread(c *client, header func(string) []string) (u unread) {
	if !slices.ContainsFunc(f.proxies, c.network.Overlaps) {
		return u
	}
	if f.untrusted(c.peer()) {
		return u // in the network of a proxy
	}
	field, element, ok := f.ending(header)
	if !ok {
		return u
	}
	u = unread{1, field, element}
	s := &f.unreads
	s.mu.Lock()
	defer s.mu.Unlock()
	if element == "" {
		known := s.missing
		if s.missing = true; known {
			return unread{}
		}
		return u
	}
	s.since++
	now := time.Now()
	if !s.logged.IsZero() && now.Sub(s.logged) < warnEvery {
		return unread{}
	}
	u.requests, s.logged, s.since = s.since, now, 0
	return u
}

// ending returns the element without an address at which the search for the
// client has ended: see [finder.reported]. The element is "" if there is none at
// all. ok is false if the search found an address that no proxy has, or only
// proxies' own.
func (f *finder) ending(header func(string) []string) (field, element string, ok bool) {
	if name := f.header; name != "" {
		values := header(name)
		if len(values) == 1 {
			if _, _, read := forwarded.ParseAddr(values[0]); read {
				return "", "", false
			}
		}
		if len(values) > 0 {
			field, element = name, cmp.Or(strings.Join(values, ", "), "(empty)")
		}
	}
	list := f.list
	hops := 0
	for _, line := range slices.Backward(header(list.Field)) {
		for rest := true; rest; {
			before := line
			var hop netip.Addr
			if hop, ok, line, rest = list.Last(line); !ok {
				if rest {
					before = before[len(line)+1:]
				}
				return list.Field, cmp.Or(strings.TrimSpace(before), "(empty)"), true
			}
			if hops++; hops == maxHops || !f.trusts(hop) {
				return "", "", false
			}
		}
	}
	if hops > 0 {
		return "", "", false
	}
	return cmp.Or(field, f.header, list.Field), element, true
}
