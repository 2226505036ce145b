package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// bucketState is one bucket as the page draws it.
type bucketState struct {
	User   string       `json:"user"`
	Key    string       `json:"key"`
	At     float64      `json:"at"`
	Limits []limitState `json:"limits"`
}

type limitState struct {
	Name     string  `json:"name"`
	Mode     string  `json:"mode"`
	Capacity int64   `json:"capacity"`
	Rate     float64 `json:"rate"`
	Interval float64 `json:"interval_ms"`
	Tokens   float64 `json:"tokens"`
	Full     float64 `json:"full_in_ms"`
	Next     float64 `json:"next_ms"`  // until more tokens come; 0 when full
	Retry    float64 `json:"retry_ms"` // until there are enough for a request; -1 when there never are
}

// inUse are the keys of the buckets that were used lately and of the page's own users, with their users.
func (d *demo) inUse(now *scene) map[string]string {
	buckets := d.history.buckets()
	switch now.settings.Key {
	case "client":
		buckets = map[string]string{core.JoinKey("global", "demo"): ""}
	case "user":
		for _, u := range users {
			buckets[core.JoinKey("header", "x-user", u)] = u
		}
	}
	return buckets
}

// states are those of the buckets in use.
func (d *demo) states() []bucketState {
	now := d.scene.Load()
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), looking{}, true), time.Second)
	defer cancel()
	list := []bucketState{}
	for key, user := range d.inUse(now) {
		res, err := now.limiter.Peek(ctx, key)
		if err != nil {
			continue
		}
		s := bucketState{User: user, Key: key, At: millis(time.Now())}
		for _, l := range res.Limits() {
			s.Limits = append(s.Limits, stateOf(l, now.settings.Cost))
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b bucketState) int { return strings.Compare(a.Key, b.Key) })
	return list[:min(len(list), 8)]
}

// stateOf draws the exact level, of which a LimitResult tells whole tokens, from when it will be full.
func stateOf(l core.LimitResult, cost int64) limitState {
	interval := float64(l.RefillInterval) / float64(time.Millisecond)
	s := limitState{
		Name: l.Name, Mode: strings.ToLower(l.Mode.String()), Capacity: l.Capacity, Rate: l.RefillRate, Interval: interval,
		Tokens: float64(l.Remaining), Full: float64(l.ResetAfter) / float64(time.Millisecond),
	}
	if s.Full == 0 {
		s.Tokens = float64(l.Capacity)
	} else if l.Mode == core.Continuous {
		s.Tokens = max(0, float64(l.Capacity)-s.Full*l.RefillRate/interval)
		s.Next = (math.Floor(s.Tokens) + 1 - s.Tokens) * interval / l.RefillRate
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
