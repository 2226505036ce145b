package main

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// stage is one picture of the page. Its limiters have buckets of their own, so that the last frame of one chapter stays while
// another one plays.
type stage struct {
	id    string
	specs []spec
	own   string // the key of the demo's own address

	stirred atomic.Int64 // counts what may take from the buckets, from 1 on
	rested  atomic.Int64 // what it was when all of them were seen full, or 0

	mu       sync.Mutex // guards all below
	settings settings
	lanes    []*lane
	seen     []bucketKey // whose buckets the page shows
	run      played
	cancel   context.CancelFunc // of the script that plays; nil: none does
	last     time.Time          // when the latest request came
}

// spec is what makes a lane differ from the others of its stage.
type spec struct {
	name, policy string
	store        core.Store
	change       func(*core.Policy)
}

// lane is one process of an app, as far as a limiter can tell: a limiter, and an app in each framework.
type lane struct {
	name     string
	settings settings
	policy   core.Policy
	limiter  *core.Limiter
	apps     map[string]http.Handler
}

// bucketKey is a key and the user that it stands for.
type bucketKey struct{ key, user string }

const maxSeen = 6 // buckets for which a picture has room

func keyOfUser(name string) string { return core.JoinKey("header", "x-user", name) }

// change puts the settings in force that body asks for.
func (st *stage) change(body []byte) (settings, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	next, err := st.settings.with(body)
	if err != nil {
		return st.settings, err
	}
	return next, st.set(next)
}

// set puts settings in force. Buckets keep their tokens. It requires that mu is held.
func (st *stage) set(s settings) error {
	var lanes []*lane
	for _, spec := range st.specs {
		l := &lane{name: spec.name, settings: s, policy: s.policy(spec.policy), apps: make(map[string]http.Handler)}
		if spec.change != nil {
			spec.change(&l.policy)
		}
		var err error
		if l.limiter, err = core.NewLimiter(&spy{spec.store}, l.policy, core.WithObserver(note)); err != nil {
			return err
		}
		for _, f := range frameworks {
			l.apps[f.name] = f.app(l.limiter, s)
		}
		lanes = append(lanes, l)
	}
	if s.Key != st.settings.Key || st.seen == nil {
		st.seen = map[string][]bucketKey{"client": {{together, ""}}, "ip": {{st.own, ""}}, "user": {{keyOfUser(users[0]), users[0]}, {keyOfUser(users[1]), users[1]}}}[s.Key]
	}
	st.settings, st.lanes = s, lanes
	st.stirred.Add(1)
	return nil
}

// lane returns the one of a name, or the first.
func (st *stage) lane(name string) *lane {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.last = time.Now()
	st.stirred.Add(1)
	i := slices.IndexFunc(st.lanes, func(l *lane) bool { return l.name == name })
	return st.lanes[max(0, i)]
}

// see has the page show the bucket of a key. Where there is no room, another one goes, but not those of the page's own users.
func (st *stage) see(k bucketKey) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if k.key == "" || slices.ContainsFunc(st.seen, func(s bucketKey) bool { return s.key == k.key }) {
		return
	}
	if st.seen = append(st.seen, k); len(st.seen) > maxSeen {
		st.seen = slices.Delete(st.seen, len(users), len(users)+1)
	}
}

// shown are the lanes, and the keys whose buckets the page shows.
func (st *stage) shown() ([]*lane, []bucketKey) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.lanes, slices.Clone(st.seen)
}

// fill makes the buckets that the page shows full.
func (st *stage) fill(ctx context.Context) error {
	lanes, seen := st.shown()
	for _, l := range lanes {
		for _, k := range seen {
			if err := l.limiter.Reset(ctx, k.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// limits are those of a key.
func (l *lane) limits(key string) []core.Limit {
	if own, ok := l.policy.Overrides[key]; ok {
		return own
	}
	return l.policy.Limits
}

// decision is what the pages are told of a request.
type decision struct {
	ID        int64       `json:"id"`
	At        float64     `json:"at"` // when it was decided, in ms since 1970
	Stage     string      `json:"stage"`
	Lane      string      `json:"lane,omitempty"`
	Framework string      `json:"framework"`
	Key       string      `json:"key"`
	User      string      `json:"user"`
	Run       string      `json:"run,omitempty"` // the script that sent it
	Status    int         `json:"status"`
	Allowed   bool        `json:"allowed"`
	Source    string      `json:"source"`
	Remaining int64       `json:"remaining"` // of the tightest limit
	Retry     float64     `json:"retry_ms"`  // as RetryAfter says; -1: never
	Limits    []level     `json:"limits"`    // after it
	Headers   [][2]string `json:"headers,omitempty"`
	Body      string      `json:"body,omitempty"`

	order  int64        // µs on the clock of the store
	limits []core.Limit // of its key
	began  float64      // when its request came, if it is waited for
}

// request is the decision on a request, as far as it is known before.
func (l *lane) request(r *http.Request, st *stage, framework string) *decision {
	key, _ := httpKey(l.settings.Key)(r)
	return &decision{Stage: st.id, Lane: l.name, Framework: framework, Key: key, User: r.Header.Get(userHeader), Run: r.Header.Get(runHeader), limits: l.limits(key)}
}

// bucketID is known before d is complete.
func (d *decision) bucketID() string {
	return (&bucket{Stage: d.Stage, Lane: d.Lane, Key: d.Key}).id()
}

// bucket is the bucket as d left it.
func (d *decision) bucket() bucket {
	return bucket{At: d.At, Stage: d.Stage, Lane: d.Lane, Key: d.Key, User: d.User, Source: d.Source, Limits: d.Limits}
}

// serve serves a request by an app of a lane, and completes the decision on it.
func (st *stage) serve(w http.ResponseWriter, r *http.Request, l *lane, d *decision) {
	st.see(bucketKey{d.Key, d.User})
	a := answerOf(l.apps[d.Framework], r.WithContext(context.WithValue(r.Context(), decisionKey{}, d)))
	a.sendTo(w)
	d.Status, d.Headers, d.Body = a.status, shownHeaders(a.header), string(a.body.Bytes()[:min(a.body.Len(), 1024)])
	d.Allowed = d.Status == http.StatusOK
	if d.Limits == nil { // the store did not decide
		if res, err := l.limiter.Peek(r.Context(), d.Key); err == nil {
			d.Limits = levelsOf(res)
		}
	}
	if d.Status == http.StatusServiceUnavailable { // nobody decided
		d.Source = ""
	}
	if d.At == 0 {
		d.At, d.order = millis(time.Now()), time.Now().UnixMicro()
	}
	for i, l := range d.Limits {
		if i == 0 || l.Tokens < d.Remaining {
			d.Remaining = l.Tokens
		}
	}
	if d.Status == http.StatusTooManyRequests && d.Retry == 0 {
		if wait, err := time.ParseDuration(a.header.Get("Retry-After") + "s"); err == nil {
			d.Retry = float64(wait.Milliseconds())
		}
	}
}

type decisionKey struct{}

// note is the limiters' observer: who decided.
func note(ctx context.Context, o core.Observation) {
	if d, ok := ctx.Value(decisionKey{}).(*decision); ok && d.Source == "" {
		d.Source = o.Source.String()
	}
}

// spy is a store that notes with each decision what it left.
type spy struct{ core.Store }

func (s *spy) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.Store.Do(ctx, r)
	d, ok := ctx.Value(decisionKey{}).(*decision)
	if !ok || d.At != 0 || err != nil { // what follows a decision, such as a settlement, is none
		return a, err
	}
	d.At, d.order = millis(time.Now()), a.Now
	for i, l := range d.limits {
		reset := time.Duration(a.ResetAfter(r.Set, i)) * time.Microsecond
		d.Limits = append(d.Limits, levelOf(l, a.Remaining(r.Set, i), reset))
		if n := r.Of(i); !a.Allowed && a.Levels.At(i).Units < n*r.Set.Rates[i].Unit {
			if n > r.Set.Rates[i].Capacity {
				d.Retry = -1
			} else if wait := float64(a.RetryAfter(r.Set, i, n)) / 1000; d.Retry >= 0 {
				d.Retry = max(d.Retry, wait)
			}
		}
	}
	return a, err
}

// shownHeaders are the header fields that the page explains, by name.
func shownHeaders(h http.Header) (list [][2]string) {
	for name, values := range h {
		for _, v := range values {
			if name != "Date" && name != "Content-Length" {
				list = append(list, [2]string{name, v})
			}
		}
	}
	slices.SortFunc(list, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return list
}
