package adaptertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// visit is a request to an app whose limiter has a key.
type visit struct {
	key anyKey
	request
	value   any                                   // App.Value
	context func(context.Context) context.Context // App.Context
}

// place is where a limiter is installed.
type place string

const (
	inUse   place = "in front of the app"
	inRoute place = "in front of the route"
)

// open runs the app of v with limiter l, whose buckets hold one token. The
// returned function sends the request of v.
func (c *trial) open(v visit, p place, l middleware) (send func() response) {
	c.t.Helper()
	l.Key = v.key
	app := c.app(answer(http.StatusOK))
	app.Value = v.value
	if v.context != nil {
		app.Context = v.context
	}
	if p == inUse {
		app.Use = []middleware{l}
	} else {
		app.Routes = routes(answer(http.StatusOK), l)
	}
	s := c.serve(app)
	return func() response { return s.send(v.request) }
}

// passed reports whether the limiter let the request pass: to a handler, or to
// the app's own answer for other requests.
func passed(r response) bool {
	switch r.status {
	case http.StatusOK, http.StatusNoContent, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// apart checks that every visit has its own bucket under one limiter, and that
// a second request finds it again.
func (c *trial) apart(p place, visits ...visit) {
	c.t.Helper()
	l := middleware{Limiter: c.holding(1)}
	send := make([]func() response, len(visits))
	for i, v := range visits {
		send[i] = c.open(v, p, l)
		if got := send[i](); !passed(got) {
			c.errorf("visit %d %s, the first with its key: answered %d %q, so it shares a bucket with another visit", i, describe(v), got.status, got.body)
		}
	}
	for i, v := range visits {
		if got := send[i](); got.status != http.StatusTooManyRequests {
			c.errorf("visit %d %s, the second with its key: answered %d %q, so it did not find its bucket", i, describe(v), got.status, got.body)
		}
	}
}

// together checks that all visits share one bucket.
func (c *trial) together(p place, visits ...visit) {
	c.t.Helper()
	l := middleware{Limiter: c.holding(1)}
	for i, v := range visits {
		got := c.open(v, p, l)()
		if i == 0 && !passed(got) || i > 0 && got.status != http.StatusTooManyRequests {
			c.errorf("visit %d %s: answered %d %q, want 429 for all but the first", i, describe(v), got.status, got.body)
		}
	}
}

func describe(v visit) string {
	return fmt.Sprintf("(%s %s from %s, %v, value %v)", v.method, v.target, v.peer, v.header, v.value)
}

// of returns visits that send the requests and share one key.
func of(key anyKey, requests ...request) []visit {
	visits := make([]visit, len(requests))
	for i, r := range requests {
		visits[i] = visit{key: key, request: r}
	}
	return visits
}

// grouping is a rule that says whether visits share a bucket.
type grouping struct {
	rule   string
	place  place
	shared bool
	visits []visit
}

func (s *suite) groupings(list []grouping) {
	for _, g := range list {
		if g.visits = slices.DeleteFunc(g.visits, func(v visit) bool { return absent(v.key) }); len(g.visits) < 2 {
			continue // the framework lacks the key
		}
		s.rule(g.rule, func(c *trial) {
			if g.shared {
				c.together(g.place, g.visits...)
			} else {
				c.apart(g.place, g.visits...)
			}
		})
	}
}
