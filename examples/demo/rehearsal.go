package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ticketHeader is what a scenario's requests show, so that nobody else's take from its buckets.
const ticketHeader = "X-Demo-Scenario"

// sourceHeader tells a scenario who decided, also of a denial, whose body does not.
const sourceHeader = "X-Demo-Source"

// rehearsal is what a scenario has at hand in one run.
type rehearsal struct {
	demo   *demo
	id     string
	ticket string
	store  core.Store
	place  string
	before *scene // that comes back

	scenes []*scene
	undo   []func()
	turn   atomic.Int64
	lost   atomic.Int64 // requests without an answer
	odd    atomic.Int64 // a status that no limiter answers with
}

func (d *demo) rehearsal(id string) *rehearsal {
	return &rehearsal{demo: d, id: id, ticket: random(), store: d.backend.patient, place: d.backend.text, before: d.scene.Load()}
}

// set puts settings in force. The buckets are new, so they are full without a word to the store, and no other demo on
// the same Redis knows of them.
func (r *rehearsal) set(s settings) error {
	next, err := r.demo.build(s, policyName+"-"+random(), namedStore{store: r.store})
	if err != nil {
		return err
	}
	next.place, next.ticket, next.before = r.place, r.ticket, r.before
	r.scenes = append(r.scenes, next)
	r.demo.show(next)
	return nil
}

// say tells the pages how far it is.
func (r *rehearsal) say(progress string) {
	r.demo.hub.send("scenario", map[string]any{"id": r.id, "running": true, "progress": progress})
}

// reply is what came back for one request, and between which instants it was decided.
type reply struct {
	status         int // 0 when nothing did
	source         string
	sent, answered time.Time
}

func (r reply) passed() bool { return r.status == http.StatusOK }
func (r reply) denied() bool { return r.status == http.StatusTooManyRequests }

var caller = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask sends a request of user's through the next framework in turn.
func (r *rehearsal) ask(ctx context.Context, user string) (got reply) {
	f := frameworks[r.turn.Add(1)%int64(len(frameworks))]
	got.sent = time.Now()
	defer func() {
		got.answered = time.Now()
		switch {
		case got.status == 0:
			r.lost.Add(1)
		case !got.passed() && !got.denied():
			r.odd.Store(int64(got.status))
		}
	}()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.demo.url+"/"+f.name+"/limited", nil)
	if err != nil {
		return got
	}
	q.Header.Set(userHeader, user)
	q.Header.Set(ticketHeader, r.ticket)
	resp, err := caller.Do(q)
	if err != nil {
		return got
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	got.status, got.source = resp.StatusCode, resp.Header.Get(sourceHeader)
	return got
}

// burst sends n requests at once.
func (r *rehearsal) burst(ctx context.Context, user string, n int) replies {
	list := make(replies, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { list[i] = r.ask(ctx, user) })
	}
	wg.Wait()
	return list
}

// steadily calls f every d, until it returns false or ctx ends.
func steadily(ctx context.Context, d time.Duration, f func(n int) bool) {
	ticker := time.NewTicker(d)
	defer ticker.Stop()
	for n := 0; f(n); n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// verdict is what a scenario came to.
type verdict struct {
	Outcome outcome `json:"outcome"`
	Text    string  `json:"text"`
	again   bool    // another run may tell
}

type outcome string

const (
	expected   outcome = "expected"
	unexpected outcome = "unexpected"
	none       outcome = "none" // it could not be told, which is nobody's fault
)

// slow is the verdict where the machine, or Redis, left nothing to judge.
func slow(format string, args ...any) verdict {
	return verdict{Outcome: none, Text: fmt.Sprintf(format, args...) + " Run it again when less is going on.", again: true}
}

// judge is the verdict on a run whose requests were all decided in the scenario's store: ok is whether what it admitted
// is right then. Where this process decided some alone, or some were not answered, there is none.
func (r *rehearsal) judge(ok bool, text string) verdict {
	alone := int64(0)
	for _, s := range r.scenes {
		alone += s.alone.Load()
	}
	switch {
	case r.odd.Load() > 0:
		return verdict{Outcome: unexpected, Text: fmt.Sprintf("A request was answered with status %d.", r.odd.Load())}
	case r.lost.Load() > 0:
		return slow("Of its requests %d were not answered in time.", r.lost.Load())
	case alone > 0:
		return slow("Redis was too slow for %d of the decisions: this process made them alone, from a bucket of its own.", alone)
	case ok:
		return verdict{Outcome: expected, Text: text}
	}
	return verdict{Outcome: unexpected, Text: text}
}

// replies are those of requests to one bucket. What a bucket should have admitted follows from the instants at which
// they were sent and answered, so that it holds on a machine that stands still now and then.
type replies []reply

func (l replies) passed() (n int) {
	for _, r := range l {
		if r.passed() {
			n++
		}
	}
	return n
}

// took is the time in which all were decided.
func (l replies) took() time.Duration {
	if len(l) == 0 {
		return 0
	}
	last := slices.MaxFunc(l, func(a, b reply) int { return a.answered.Compare(b.answered) })
	return last.answered.Sub(l.began())
}

// began is when the first was sent.
func (l replies) began() time.Time {
	return slices.MinFunc(l, func(a, b reply) int { return a.sent.Compare(b.sent) }).sent
}

// drift is how much Redis' clock and this process's may differ in what they make of a scenario's length.
const drift = 2 * time.Millisecond

// most is how many a full bucket can have admitted of them.
func (l replies) most(limit core.Limit) int64 { return limit.MaxIn(l.took() + drift) }

// least is how many a full bucket of the mode Continuous must have admitted, each for a token. It is 0 if none was
// denied: then the bucket was never seen empty.
//
// A denial tells that less than a token was there. All that refilled between two denials was therefore admitted between
// them, but for what a bucket that is full can't hold.
func (l replies) least(limit core.Limit) int64 {
	var denied replies
	for _, r := range l {
		if r.denied() {
			denied = append(denied, r)
		}
	}
	if len(denied) == 0 {
		return 0
	}
	slices.SortFunc(denied, func(a, b reply) int { return a.answered.Compare(b.answered) })
	perSecond := limit.RefillRate / limit.RefillInterval.Seconds()
	room, sure := float64(limit.Capacity), float64(limit.Capacity)
	first, last := denied[0], denied[0]
	for _, next := range denied[1:] {
		if !next.sent.After(last.answered) {
			continue // which of the two came first is not known
		}
		most := perSecond * next.answered.Sub(last.sent).Seconds()
		sure -= max(0, most-(room-1)) // refilled at most, and found no room
		last = next
	}
	if last.sent.After(first.answered) {
		sure += perSecond*(last.sent.Sub(first.answered)-drift).Seconds() - 1
	}
	return max(limit.Capacity, int64(math.Ceil(sure)))
}
