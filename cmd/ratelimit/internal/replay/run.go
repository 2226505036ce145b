package replay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

const hour = int64(time.Hour / time.Microsecond)

// top is how many clients an Outcome lists.
const top = 10

// run is a replay that is under way.
type run struct {
	*Outcome

	t      *Traffic
	view   view
	engine *engine
	given  core.Policy // before Playable
	denied []int32     // keys
	first  int64       // the start of the first hour
}

// replay replays the traffic through p, and counts the requests of its plan.
// Step is called from time to time, with how many requests were decided since.
// It returns the keys that were denied.
func (t *Traffic) replay(ctx context.Context, p view, step func(int)) (*run, error) {
	engine, err := newEngine(t, p)
	if err != nil {
		return nil, err
	}
	r := &run{Outcome: &Outcome{Policy: p.Policy, ByLimit: make([]int64, len(p.Limits))}, t: t, view: p, engine: engine, first: t.From - t.From%hour}
	r.Hours = make([]Hour, (t.To-r.first)/hour+1)
	for i := range r.Hours {
		r.Hours[i].Start = r.first + int64(i)*hour
	}
	since := 0
	for key := range t.Keys {
		if err := r.client(key); err != nil {
			return nil, err
		}
		if since += len(t.of(key)); since > 10_000 {
			step(since)
			since = 0
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	step(since)
	slices.SortStableFunc(r.Top, mostDenied)
	r.Top = r.Top[:min(len(r.Top), top)]
	return r, nil
}

func mostDenied(a, b Client) int {
	return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
}

// client replays the requests of one key.
func (r *run) client(number int) error {
	c := Client{Key: r.t.Keys[number]}
	_, own := r.Policy.Overrides[c.Key]
	var shut Stretch // ends with the wait of the last denied request
	for _, ev := range r.t.of(number) {
		res, err := r.engine.decide(c.Key, ev)
		if err != nil {
			return err
		}
		h := &r.Hours[(ev.at-r.first)/hour]
		h.Requests++
		if !r.view.plans[ev.plan] {
			continue
		}
		c.Requests++
		if res.Allowed {
			r.longest(shut, ev.at)
			shut = Stretch{}
			continue
		}
		h.Denied++
		c.Denied++
		if !own {
			r.violated(res)
		}
		if shut.Requests++; shut.Requests == 1 {
			shut.Key, shut.From = c.Key, ev.at
		}
		shut.To = ev.at
		if res.RetryAfter == core.Never {
			r.Never++
		} else {
			shut.To += res.RetryAfter.Microseconds()
		}
	}
	r.longest(shut, shut.To)
	if r.Requests += c.Requests; c.Requests > 0 {
		r.All++
	}
	if c.Denied > 0 {
		r.Denied += c.Denied
		r.Clients++
		r.denied = append(r.denied, int32(number))
		if r.Top = append(r.Top, c); len(r.Top) > 1000 {
			slices.SortStableFunc(r.Top, mostDenied)
			r.Top = r.Top[:top]
		}
	}
	return nil
}

// violated counts which limits denied a request.
func (r *run) violated(res core.Result) {
	if len(r.ByLimit) == 1 {
		r.ByLimit[0]++
		return
	}
	for i, l := range res.Limits() {
		if l.Violated {
			r.ByLimit[i]++
		}
	}
}

// longest keeps s if it is longer than the longest so far. It ended at end, if
// that is sooner than its last wait.
func (r *run) longest(s Stretch, end int64) {
	if s.Requests == 0 {
		return
	}
	s.To = min(s.To, end)
	if r.Longest.Requests == 0 || s.To-s.From > r.Longest.To-r.Longest.From {
		r.Longest = s
	}
}
