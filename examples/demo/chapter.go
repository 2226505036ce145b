package main

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// userHeader says on whose behalf a request comes. A login would, in an app.
const userHeader = "X-User"

// users are those of the page.
var users = []string{"ann", "bob"}

// newRequest returns a request as the scripts send it.
func newRequest(user string) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "/limited", nil)
	r.RemoteAddr = "127.0.0.1:80"
	r.Header.Set(userHeader, user)
	return r
}

// keyFuncs say who has a bucket, by the values of settings.Key.
var keyFuncs = map[string]httplimit.KeyFunc{
	"client": httplimit.Global("demo"),
	"user":   httplimit.ByHeader(userHeader),
	"ip":     httplimit.ByIP(),
}

// keyOf is the key of a request.
func keyOf(by string, r *http.Request) string {
	key, _ := keyFuncs[by](r)
	return key
}

// chapter is a part of the page with a picture. Its buckets are its own, so
// its last frame stays while another chapter plays.
type chapter struct {
	id    string
	kinds []kind

	// mu guards all below. It is held while a request is decided, until that is
	// noted, so pages are told of decisions in their order. A demo can afford
	// that: a service must not.
	mu       sync.Mutex
	settings settings
	services []*service
	seen     []seenKey         // whose buckets the page shows
	known    map[string]bucket // what pages were told of buckets, by their id
	pending  []*decision       // of which pages are not told yet
	run      run               // the latest script
	cancel   func()            // ends it; nil: none plays
}

// kind is what makes a service differ from the others of its chapter.
type kind struct {
	name, policy string
	store        core.Store
	change       func(*core.Policy) // nil: changes nothing
}

// service is one process of an app, as far as a limiter can tell.
type service struct {
	name    string
	limiter *core.Limiter
	handler http.Handler
}

// seenKey is a key and the user that it stands for.
type seenKey struct{ key, user string }

const maxSeen = 6 // buckets for which a picture has room

// change puts the settings in force that body asks for.
func (c *chapter) change(ctx context.Context, body []byte) (settings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := c.settings.with(body)
	if err != nil {
		return c.settings, err
	}
	c.touch(ctx)
	return next, c.set(next)
}

// touch writes the buckets that the page shows, and leaves their tokens as they
// are. A rate counts from the last write: without this one, the time that has
// passed would count with the new rate, and the level that is drawn would jump.
// It requires that c.mu is held.
func (c *chapter) touch(ctx context.Context) {
	for _, s := range c.services {
		for _, k := range c.seen {
			if s.limiter.Debit(ctx, k.key, 1) == nil { // else Redis is away, and no level is drawn
				_ = s.limiter.Refund(ctx, k.key, 1)
			}
		}
	}
}

// set puts settings in force. Buckets keep what was taken. It requires that
// c.mu is held.
func (c *chapter) set(s settings) error {
	var services []*service
	for i, k := range c.kinds {
		next := &service{name: k.name}
		policy := s.policy(k.policy)
		if k.change != nil {
			k.change(&policy)
		}
		var err error
		if c.services == nil {
			next.limiter, err = core.NewLimiter(k.store, policy)
		} else {
			next.limiter = c.services[i].limiter
			err = next.limiter.SetPolicy(policy)
		}
		if err != nil {
			return err
		}
		next.handler = s.handler(next.limiter)
		services = append(services, next)
	}
	if s.Key != c.settings.Key {
		c.known, c.seen = map[string]bucket{}, nil
		for _, user := range users {
			c.see(seenKey{keyOf(s.Key, newRequest(user)), user})
		}
	}
	c.settings, c.services = s, services
	return nil
}

// handler is an endpoint that l limits.
func (s settings) handler(l *core.Limiter) http.Handler {
	limit := httplimit.New(l, keyFuncs[s.Key],
		httplimit.WithCost(func(*http.Request) (int64, error) { return s.Cost, nil }),
		httplimit.WithUnits(func(*http.Request) (core.Units, error) { return s.units(s.Second.Cost), nil }),
		httplimit.WithSettle(func(*http.Request, int) core.Units { return s.units(s.Second.Used) }),
		httplimit.OnDenied(func(_ http.ResponseWriter, r *http.Request, res core.Result) {
			decisionOf(r).note(res) // writes nothing, so the default answer follows
		}),
	)
	return limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		res, _ := httplimit.FromContext(r.Context())
		decisionOf(r).note(res)
		writeJSON(w, http.StatusOK, map[string]string{"hello": r.Header.Get(userHeader), "source": res.Source.String()})
		decisionOf(r).noted()
		time.Sleep(time.Duration(s.Takes) * time.Millisecond) // the work
	}))
}

// first returns the limiter of the first service, and the settings in force.
func (c *chapter) first() (*core.Limiter, settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.services[0].limiter, c.settings
}

// see has the page show the bucket of a key. Where there is no room another
// one goes, but not those of the page's own users. It requires that c.mu is
// held.
func (c *chapter) see(k seenKey) {
	if k.key == "" || slices.ContainsFunc(c.seen, func(s seenKey) bool { return s.key == k.key }) {
		return
	}
	if c.seen = append(c.seen, k); len(c.seen) > maxSeen {
		c.seen = slices.Delete(c.seen, len(users), len(users)+1)
	}
}

// fill makes the buckets that the page shows full.
func (c *chapter) fill(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.services {
		for _, k := range c.seen {
			if err := s.limiter.Reset(ctx, k.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// decision is what the pages are told of a request, with its bucket as it left
// it.
type decision struct {
	bucket

	ID        int64       `json:"id"`
	Run       string      `json:"run,omitempty"` // the script that sent it
	Status    int         `json:"status"`
	Allowed   bool        `json:"allowed"`
	Remaining int64       `json:"remaining"` // of the tightest limit
	Retry     float64     `json:"retry_ms"`  // as RetryAfter says; -1: never
	Headers   [][2]string `json:"headers"`
	Body      string      `json:"body"`

	noted func() // call it when all of the answer is written
}

type decisionKey struct{}

func decisionOf(r *http.Request) *decision { return r.Context().Value(decisionKey{}).(*decision) }

// note keeps what was decided.
func (d *decision) note(res core.Result) {
	d.At, d.Source, d.Limits, d.Remaining = millis(time.Now()), res.Source.String(), levelsOf(res), res.Remaining
	if d.Retry = -1; res.RetryAfter != core.Never {
		d.Retry = float64(res.RetryAfter.Microseconds()) / 1000
	}
}

// serve has a service answer a request, by default the first one. run is the
// script that sent it.
func (c *chapter) serve(w http.ResponseWriter, r *http.Request, name, run string) {
	user := cmp.Or(r.Header.Get(userHeader), users[0])
	r.Header.Set(userHeader, user[:min(len(user), 256)])
	c.mu.Lock()
	key := keyOf(c.settings.Key, r)
	d := &decision{Run: run, bucket: bucket{Chapter: c.id, Service: name, Key: key, User: r.Header.Get(userHeader)}}
	a := &answer{header: http.Header{}}
	d.noted = sync.OnceFunc(func() {
		d.Status, d.Allowed, d.Headers, d.Body = a.status, a.status == http.StatusOK, a.fields(), a.body.String()
		if d.At == 0 { // nobody decided
			d.At = millis(time.Now())
		}
		c.see(seenKey{d.Key, d.User})
		if len(c.pending) < maxPending {
			c.pending = append(c.pending, d)
		}
		c.mu.Unlock()
	})
	i := slices.IndexFunc(c.services, func(s *service) bool { return s.name == name })
	c.services[max(0, i)].handler.ServeHTTP(a, r.WithContext(context.WithValue(r.Context(), decisionKey{}, d)))
	d.noted()
	a.sendTo(w)
}

// maxPending is how many decisions of a chapter pages are told at once. In a
// flood they are not told of the rest.
const maxPending = 1000

// answer is an [http.ResponseWriter] that keeps what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *answer) WriteHeader(status int)      { a.status = status }

// sendTo sends the answer.
func (a *answer) sendTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes())
}

// fields are the header fields, by name.
func (a *answer) fields() (list [][2]string) {
	for name, values := range a.header {
		for _, v := range values {
			list = append(list, [2]string{name, v})
		}
	}
	slices.SortFunc(list, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return list
}
