package adapter

import (
	"cmp"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/forwarded"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// ending is how the search for a client ended. The zero value says that it was
// found, and has sent no addresses itself.
type ending struct {
	kind    endingKind
	field   string // of the header; "": there is nothing to say
	element string // that is unread
}

type endingKind uint8

const (
	_        endingKind = iota
	ownField            // the peer is not trusted, and sends a proxy's field
	ownList             // whom trusted proxies name is not trusted, and has sent them addresses
	unread              // a trusted proxy has written something else than an address
	missing             // a trusted proxy has written nothing
)

// proxyWarning says that many clients may share the bucket of a proxy. The zero
// value is none.
type proxyWarning struct {
	code     string
	proxy    string // its address or network
	field    string
	requests int64  // of RL722: for which it stands
	value    string // of RL722: what the proxy has written
}

const (
	proxyMessage  = "ratelimit: a peer that ByIP does not trust sends a proxy's field: if it is your proxy, all its clients share one bucket; name it with core.TrustProxies"
	unreadMessage = "ratelimit: a trusted proxy does not say which address its client has, so all its clients share the proxy's bucket"
)

// log logs w about a request with this path.
func (w proxyWarning) log(log *slog.Logger, path string) {
	if addr, _, ok := forwarded.ParseAddr(w.proxy); ok {
		w.proxy = forwarded.Plain(addr).String()
	}
	if w.code == "RL701" {
		log.Warn(proxyMessage, "code", w.code, "peer", w.proxy, "header", w.field)
		return
	}
	log.Warn(unreadMessage, "code", w.code, "requests", w.requests, "path", path, "peer", w.proxy, "header", w.field, "value", w.value)
}

// proxyWarnings has what a finder has warned of. A proxy that was not named, and
// one that sends nothing, is logged once: the first may be a client, and the
// second asks on its own behalf, such as for a health check. What can't be read
// is logged at most once a minute.
type proxyWarnings struct {
	proxy   atomic.Bool // a proxy that was not named was logged
	missing atomic.Bool // one that sends nothing was logged

	mu     sync.Mutex // guards all below
	unread time.Time  // when something that can't be read was logged
	since  int64      // requests with something that can't be read that were not logged
}

// warnEvery is how often what can't be read is logged at most.
const warnEvery = time.Minute

// warningOf returns the warning about a request of c, if it is to be logged now.
func (f *finder) warningOf(c *client, e ending) (w proxyWarning) {
	s := &f.warned
	switch {
	case e.field == "":
	case e.kind == unread:
		if requests := s.dueUnread(); requests > 0 {
			return proxyWarning{"RL722", c.peer(), e.field, requests, shape(e.element)}
		}
	case e.kind == missing:
		if !s.missing.Load() && s.missing.CompareAndSwap(false, true) {
			return proxyWarning{"RL722", c.peer(), e.field, 1, "(missing)"}
		}
	case !s.proxy.Load() && s.proxy.CompareAndSwap(false, true):
		w = proxyWarning{code: "RL701", proxy: c.peer(), field: e.field}
		if e.kind == ownList {
			w.proxy = string(c.append(nil))
		}
	}
	return w
}

// dueUnread counts a request with something that can't be read. If that is to be
// logged, requests is for how many it stands, and else 0.
func (s *proxyWarnings) dueUnread() (requests int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since++
	now := time.Now()
	if !s.unread.IsZero() && now.Sub(s.unread) < warnEvery {
		return 0
	}
	requests, s.unread, s.since = s.since, now, 0
	return requests
}

// shape returns an element as the log may show it, which has no addresses of
// clients: with its digits as 0.
func shape(element string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if r >= '1' && r <= '9' {
			return '0'
		}
		return r
	}, printable.Clip(strings.TrimSpace(element), 80)), "(empty)")
}
