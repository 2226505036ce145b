package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// level is the state of a limit, as the library tells it. Tokens are Remaining:
// the page derives them from nothing.
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

func levelsOf(res core.Result) (list []level) {
	for _, l := range res.Limits() {
		list = append(list, levelOf(l))
	}
	return list
}

func levelOf(state core.LimitResult) level {
	l := state.Limit
	interval := float64(l.RefillInterval) / float64(time.Millisecond)
	s := level{
		Name: l.Name, Unit: l.Unit, Mode: strings.ToLower(l.Mode.String()),
		Capacity: l.Capacity, Rate: l.RefillRate, Interval: interval, Tokens: state.Remaining,
	}
	if l.Mode == core.Concurrent || state.Remaining >= l.Capacity {
		return s
	}
	s.Period = interval
	if l.Mode == core.Continuous {
		s.Period = interval / l.RefillRate
	}
	full := float64(state.ResetAfter) / float64(time.Millisecond)
	if l.Mode != core.Continuous && l.RefillRate >= float64(l.Capacity) {
		s.Next = full // the next step fills it, and a month is no multiple of anything
	} else if s.Next = math.Mod(full, s.Period); s.Next == 0 {
		s.Next = s.Period
	}
	return s
}

// bucket is what the pages are told of a bucket.
type bucket struct {
	At      float64 `json:"at"` // in ms since 1970
	Chapter string  `json:"chapter"`
	Service string  `json:"service"`
	Key     string  `json:"key"`
	User    string  `json:"user"`
	Source  string  `json:"source"` // who decides; "" if nobody can
	Limits  []level `json:"limits"`
}

func (b bucket) id() string { return b.Service + "/" + b.Key }

// same reports whether a page that knows of b need not hear of later.
func (b bucket) same(later bucket) bool {
	return b.Source == later.Source && slices.EqualFunc(b.Limits, later.Limits, func(x, y level) bool {
		x.Next, x.Period = y.Next, y.Period
		return x == y
	})
}

// asWhenDue returns b as of the instant at which its tokens came, if pages know
// when that was: the demo looks only every so often.
func (b bucket) asWhenDue(known bucket) bucket {
	if known.Source != b.Source || len(known.Limits) == 0 || len(b.Limits) == 0 {
		return b
	}
	was := known.Limits[0]
	early := b.At - (known.At + was.Next)
	if was.Next == 0 || early <= 0 || early > 300 || b.Limits[0].Tokens <= was.Tokens {
		return b
	}
	b.At -= early
	for i := range b.Limits {
		if b.Limits[i].Next > 0 {
			b.Limits[i].Next += early
		}
	}
	return b
}

// look returns the buckets that are not as pages know them, and notes that
// they are told. It requires that c.mu is held.
func (c *chapter) look(ctx context.Context) (news []bucket) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, s := range c.services {
		for _, k := range c.seen {
			b := bucket{At: millis(time.Now()), Chapter: c.id, Service: s.name, Key: k.key, User: k.user}
			if res, err := s.limiter.Peek(ctx, k.key); err == nil {
				b.Source, b.Limits = res.Source.String(), levelsOf(res)
			}
			known, ok := c.known[b.id()]
			if ok && known.same(b) {
				continue
			}
			b = b.asWhenDue(known)
			c.known[b.id()] = b
			news = append(news, b)
		}
	}
	return news
}
