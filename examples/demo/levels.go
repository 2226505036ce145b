package main

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// level is the state of a limit, as the library tells it. Tokens are Remaining: the page derives them from nothing.
type level struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit,omitempty"`
	Mode     string  `json:"mode"`
	Capacity int64   `json:"capacity"`
	Rate     float64 `json:"rate"`
	Interval float64 `json:"interval_ms"`
	Tokens   int64   `json:"tokens"`
	Next     float64 `json:"next_ms"` // until more tokens come; 0 when full
	Period   float64 `json:"period_ms"`
}

// levelOf is the level of a limit with so many tokens, which is full after reset.
func levelOf(l core.Limit, remaining int64, reset time.Duration) level {
	interval := float64(l.RefillInterval) / float64(time.Millisecond)
	s := level{Name: l.Name, Unit: l.Unit, Mode: strings.ToLower(l.Mode.String()), Capacity: l.Capacity, Rate: l.RefillRate, Interval: interval, Tokens: remaining}
	if l.Mode == core.Concurrent || remaining >= l.Capacity {
		return s
	}
	s.Period = interval
	if l.Mode == core.Continuous {
		s.Period = interval / l.RefillRate
	}
	full := float64(reset) / float64(time.Millisecond)
	if l.Mode != core.Continuous && l.RefillRate >= float64(l.Capacity) { // the next step fills it, and a month is no multiple of anything
		s.Next = full
	} else if s.Next = math.Mod(full, s.Period); s.Next == 0 {
		s.Next = s.Period
	}
	return s
}

func levelsOf(res core.Result) (list []level) {
	for _, l := range res.Limits() {
		list = append(list, levelOf(l.Limit, l.Remaining, l.ResetAfter))
	}
	return list
}

// bucket is what the pages are told of a bucket.
type bucket struct {
	At     float64 `json:"at"`
	Stage  string  `json:"stage"`
	Lane   string  `json:"lane,omitempty"`
	Key    string  `json:"key"`
	User   string  `json:"user"`
	Source string  `json:"source"` // who would decide; "" if nobody can
	Limits []level `json:"limits"`
}

func (b *bucket) id() string { return b.Stage + "/" + b.Lane + "/" + b.Key }

// same reports whether a page that knows of b need not hear of later.
func (b *bucket) same(later *bucket) bool {
	return b.Source == later.Source && slices.EqualFunc(b.Limits, later.Limits, func(x, y level) bool {
		return x.Tokens == y.Tokens && x.Capacity == y.Capacity && x.Rate == y.Rate && x.Interval == y.Interval && x.Mode == y.Mode && x.Unit == y.Unit
	})
}

// full reports whether nothing is missing in the bucket.
func (b *bucket) full() bool {
	return len(b.Limits) > 0 && !slices.ContainsFunc(b.Limits, func(l level) bool { return l.Tokens < l.Capacity })
}

// look is the state of the buckets of some stages that pages show; without stages, of all.
func (d *demo) look(ctx context.Context, stages ...*stage) (list []bucket) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if stages == nil {
		stages = d.stages
	}
	for _, st := range stages {
		stirred, full := st.stirred.Load(), true
		lanes, seen := st.shown()
		for _, l := range lanes {
			for _, k := range seen {
				b := bucket{At: millis(time.Now()), Stage: st.id, Lane: l.name, Key: k.key, User: k.user}
				if res, err := l.limiter.Peek(ctx, k.key); err == nil {
					b.Source, b.Limits = res.Source.String(), levelsOf(res)
				}
				full = full && b.full()
				list = append(list, b)
			}
		}
		if !full {
			stirred = 0
		}
		st.rested.Store(stirred)
	}
	return list
}

// awake are the stages that may change by themselves: something has happened since all their buckets were full.
func (d *demo) awake() (list []*stage) {
	for _, st := range d.stages {
		if st.rested.Load() != st.stirred.Load() {
			list = append(list, st)
		}
	}
	return list
}

// fresh are the buckets of list that are not as pages know them. A bucket of which a decision is to be told is left out: what was
// decided tells more. It requires that d.telling is held.
func (d *demo) fresh(list []bucket) (news []bucket) {
	untold := map[string]bool{}
	for _, m := range slices.Concat(d.pending, slices.Collect(maps.Keys(d.begun))) {
		untold[m.bucketID()] = true
	}
	for _, b := range list {
		known, ok := d.known[b.id()]
		if ok && (known.same(&b) || known.At >= b.At) || untold[b.id()] {
			continue
		}
		if ok && known.Source == b.Source && len(known.Limits) > 0 && len(b.Limits) > 0 { // the tokens came when they were due, and not when the demo looked
			if due := known.At + known.Limits[0].Next; due > known.At && due < b.At && due > b.At-300 && b.Limits[0].Tokens > known.Limits[0].Tokens {
				early := b.At - due
				for i := range b.Limits {
					if b.Limits[i].Next > 0 {
						b.Limits[i].Next += early
					}
				}
				b.At = due
			}
		}
		d.known[b.id()] = b
		past := append(d.past[b.Stage], b)
		d.past[b.Stage] = slices.Clone(past[max(0, len(past)-pastKept):])
		news = append(news, b)
	}
	return news
}
