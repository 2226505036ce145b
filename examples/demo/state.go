package main

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// maxShown is how many buckets have room on the page.
const maxShown = 8

// states is the buckets as the page draws them.
type states struct {
	List  []bucketState `json:"list"`
	Modes []bucketState `json:"modes"` // the comparison's, one for each mode
	More  int           `json:"more"`  // in use, and not in the list
	Store place         `json:"store"`
}

// place is where the buckets are, in words.
type place struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Alone bool   `json:"alone"` // Redis does not answer
}

type bucketState struct {
	User    string       `json:"user"`
	Key     string       `json:"key"`
	Replica string       `json:"replica"` // "" if there is one
	Policy  string       `json:"policy"`
	Alone   bool         `json:"alone"` // this is the level of the process alone
	At      float64      `json:"at"`
	Limits  []limitState `json:"limits"`
}

type limitState struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Mode     string  `json:"mode"`
	Capacity int64   `json:"capacity"`
	Rate     float64 `json:"rate"`
	Interval float64 `json:"interval_ms"`
	Tokens   float64 `json:"tokens"`
	Full     float64 `json:"full_in_ms"`
	Next     float64 `json:"next_ms"`  // until more tokens come; 0 when full
	Retry    float64 `json:"retry_ms"` // until there are enough for a request; -1 when there never are
}

// together is the key of everybody's bucket.
var together = core.JoinKey("global", "demo")

// inUse are the keys of the buckets to show, with their users: those of the page's own users, and those that were
// used lately.
func (d *demo) inUse(now *scene) (keys, owners []string) {
	if now.settings.Key == "client" {
		return []string{together}, []string{""}
	}
	if now.settings.Key == "user" {
		for _, u := range users {
			keys, owners = append(keys, core.JoinKey("header", "x-user", u)), append(owners, u)
		}
	}
	if now.before != nil { // a scenario's requests are of these users
		return keys, owners
	}
	more, theirs := d.history.recent()
	for i, key := range more {
		if !slices.Contains(keys, key) {
			keys, owners = append(keys, key), append(owners, theirs[i])
		}
	}
	return keys, owners
}

// states are those of the buckets in use.
func (d *demo) states() states {
	now := d.scene.Load()
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), looking{}, true), time.Second)
	defer cancel()
	s := states{List: []bucketState{}, Store: place{Kind: d.backend.kind, Text: now.place}}
	keys, owners := d.inUse(now)
	s.More = max(0, len(keys)-maxShown)
	peek := func(by *replica, key, user string) {
		res, err := by.limiter.Peek(ctx, key)
		alone := err != nil || res.Source == core.FromFallback
		s.Store.Alone = s.Store.Alone || alone
		if err == nil && user != nobody {
			s.List = append(s.List, stateOf(res, now, by.name, key, user))
		}
	}
	for _, by := range now.replicas {
		if len(keys) == 0 { // it is still to be told who decides
			peek(by, together, nobody)
		}
		for i, key := range keys[:min(len(keys), maxShown)] {
			peek(by, key, owners[i])
		}
	}
	s.Modes = now.compare.states(ctx, now)
	if s.Store.Alone && len(now.replicas) > 1 {
		s.Store.Text = "Redis is off: each replica decides alone"
	} else if s.Store.Alone {
		s.Store.Text = "Redis does not answer: this process decides alone"
	}
	slices.SortFunc(s.List, func(a, b bucketState) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Replica, b.Replica))
	})
	return s
}

// nobody is whose bucket is not to be shown.
const nobody = "\x00"

// stateOf is a bucket as it is now.
func stateOf(res core.Result, now *scene, replica, key, user string) bucketState {
	b := bucketState{
		User: user, Key: key, Replica: replica, Policy: now.policy, At: millis(time.Now()), Alone: res.Source == core.FromFallback,
	}
	for _, l := range res.Limits() {
		if l.Limit.Mode == core.Concurrent { // the page draws buckets
			continue
		}
		cost := now.settings.Cost
		if l.Limit.Unit != "" {
			cost = now.settings.Second.Cost
		}
		b.Limits = append(b.Limits, levelOf(l, cost))
	}
	return b
}

// levelOf draws the exact level, of which a LimitResult tells whole tokens, from when it will be full.
func levelOf(res core.LimitResult, cost int64) limitState {
	l := res.Limit
	interval := float64(l.RefillInterval) / float64(time.Millisecond)
	s := limitState{
		Name: l.Name, Unit: l.Unit, Mode: strings.ToLower(l.Mode.String()), Capacity: l.Capacity, Rate: l.RefillRate, Interval: interval,
		Tokens: float64(res.Remaining), Full: float64(res.ResetAfter) / float64(time.Millisecond),
	}
	if s.Full == 0 {
		s.Tokens = float64(l.Capacity)
	} else if l.Mode == core.Continuous {
		s.Tokens = max(0, float64(l.Capacity)-s.Full*l.RefillRate/interval)
		s.Next = (math.Floor(s.Tokens) + 1 - s.Tokens) * interval / l.RefillRate
	} else if l.RefillRate >= float64(l.Capacity) { // the next step fills it, and a month is no multiple of anything
		s.Next = s.Full
	} else if s.Next = math.Mod(s.Full, interval); s.Next == 0 {
		s.Next = interval
	}
	switch lack := float64(cost) - s.Tokens; {
	case cost > l.Capacity:
		s.Retry = -1
	case lack <= 0:
	case l.Mode == core.Continuous:
		s.Retry = lack * interval / l.RefillRate
	default:
		s.Retry = s.Next + (math.Ceil(lack/l.RefillRate)-1)*interval
	}
	return s
}

// foretell reports whether later is what follows from s if nobody sends a request: then pages need not be told.
func (s *states) foretell(later states) bool {
	return s.More == later.More && s.Store == later.Store &&
		slices.EqualFunc(s.List, later.List, bucketState.foretells) &&
		slices.EqualFunc(s.Modes, later.Modes, bucketState.foretells)
}

func (b bucketState) foretells(later bucketState) bool {
	return b.Key == later.Key && b.User == later.User && b.Replica == later.Replica && b.Policy == later.Policy && b.Alone == later.Alone &&
		slices.EqualFunc(b.Limits, later.Limits, func(x, y limitState) bool {
			return x.Name == y.Name && x.Unit == y.Unit && x.Mode == y.Mode && x.Capacity == y.Capacity && x.Rate == y.Rate &&
				x.Interval == y.Interval && near(x, later.At-b.At, y.Tokens)
		})
}

// clocks is how much the clocks that take part may differ, in ms.
const clocks = 30

// near reports whether tokens are what a level comes to after some ms. It may be a moment early or late.
func near(l limitState, after, tokens float64) bool {
	least, most := l.after(after-clocks), l.after(after+clocks)
	return tokens >= least-0.01 && tokens <= most+0.01
}

// after is the level after some ms in which nobody takes tokens.
func (s limitState) after(ms float64) float64 {
	gained := 0.0
	switch {
	case ms <= 0, s.Next == 0:
	case s.Mode == "continuous":
		gained = s.Rate * ms / s.Interval
	case ms >= s.Next:
		gained = s.Rate * (1 + math.Floor((ms-s.Next)/s.Interval))
	}
	return min(float64(s.Capacity), s.Tokens+gained)
}
