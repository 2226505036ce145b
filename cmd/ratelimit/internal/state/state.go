// Package state says in words what a bucket in Redis has.
package state

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Limit is the state of one limit.
type Limit struct {
	Name     string `json:"name"`
	Unit     string `json:"unit"`
	Text     string `json:"limit"`
	Capacity int64  `json:"capacity"`
	Left     int64  `json:"left"`
	Debt     int64  `json:"debt,omitempty"`

	Denies     bool    `json:"denies"`
	RetryAfter float64 `json:"retry_after_seconds,omitempty"` // until the request passes; 0 if it does, or never will
	Never      bool    `json:"never,omitempty"`               // it never will
	FullIn     float64 `json:"full_in_seconds"`

	InUse    int64  `json:"in_use,omitempty"` // slots
	Held     int64  `json:"held,omitempty"`   // tokens of estimates
	Reserved int64  `json:"reserved,omitempty"`
	Leased   int64  `json:"leased,omitempty"`
	Changed  string `json:"changed,omitempty"` // another definition wrote it

	retry, full time.Duration
	slots       bool
	cost        int64
}

// Bucket is the state of a bucket.
type Bucket struct {
	Policy   string  `json:"policy"`
	Key      string  `json:"key"`
	Allowed  bool    `json:"allowed"`
	Blocked  bool    `json:"blocked,omitempty"`  // by the policy or in Redis
	Override bool    `json:"override,omitempty"` // its limits are those of an override in Redis
	Unused   bool    `json:"unused"`
	Says     string  `json:"says"`
	Expires  float64 `json:"expires_in_seconds,omitempty"`
	Others   int     `json:"other_limits,omitempty"`
	Limits   []Limit `json:"limits"`

	retry, expires time.Duration
}

// Of asks the store for the state of key's bucket, and whether units would pass. limiter takes keys as the store has them.
func Of(ctx context.Context, limiter *core.Limiter, key string, units core.Units) (*Bucket, error) {
	stored, err := limiter.Inspect(ctx, key)
	if err != nil {
		return nil, err
	}
	res, err := limiter.PeekUnits(ctx, key, units)
	if err != nil {
		return nil, err
	}
	b := of(res, stored)
	b.name(limiter, key)
	return b, nil
}

// Sketch is Of without what only the store's own state tells. It costs one call that others share.
func Sketch(ctx context.Context, limiter *core.Limiter, key string, units core.Units) (*Bucket, error) {
	res, err := limiter.PeekUnits(ctx, key, units)
	if err != nil {
		return nil, err
	}
	b := of(res, core.Inspection{Others: -1})
	b.Others = 0
	b.name(limiter, key)
	return b, nil
}

// name says whose bucket it is, and whether the policy blocks it.
func (b *Bucket) name(limiter *core.Limiter, key string) {
	b.Policy, b.Key = limiter.Name(), key
	b.Blocked = slices.ContainsFunc(limiter.Policy().Blocked, func(blocked string) bool { return core.StoredKey(blocked) == key })
	e := limiter.Exceptions()
	_, b.Override = e.Overrides[key]
	switch {
	case slices.Contains(e.Blocked, key):
		b.Blocked, b.Says = true, "denied: this key is blocked in Redis (ratelimit unblock)"
	case b.Override:
		b.Blocked = false // by the policy: exceptions come first
		b.Says += ", by an override in Redis"
	case b.Blocked:
		b.Says = "denied: the policy blocks this key"
	}
}

func of(res core.Result, stored core.Inspection) *Bucket {
	b := &Bucket{Allowed: res.Allowed, Unused: len(stored.Limits) == 0 && stored.Others == 0, Others: max(0, stored.Others), retry: res.RetryAfter}
	b.expires, b.Expires = stored.Expires, stored.Expires.Seconds()
	for _, r := range res.Limits() {
		l := Limit{
			Name: r.Limit.Name, Unit: unitOf(r.Limit), Text: fmt.Sprint(r.Limit), Capacity: r.Limit.Capacity, Left: r.Remaining, Debt: r.Debt,
			Denies: r.Violated, retry: r.RetryAfter, full: r.ResetAfter, slots: r.Limit.Mode == core.Concurrent, cost: r.Cost,
		}
		l.FullIn, l.Never = l.full.Seconds(), l.retry == core.Never
		if !l.Never {
			l.RetryAfter = l.retry.Seconds()
		}
		for _, s := range stored.Limits {
			if s.Limit.Name != r.Limit.Name || s.Limit.Mode != r.Limit.Mode {
				continue
			}
			l.Reserved, l.Leased, l.Held = s.Reserved, s.Leased, s.Held
			if s.Changed {
				l.Changed = fmt.Sprintf("last used with a capacity of %s and perhaps another rate, at %s", show.Count(s.Capacity), show.Instant(s.Written))
			}
		}
		if l.slots {
			l.InUse, l.Held = l.Capacity-l.Left, 0
		}
		b.Limits = append(b.Limits, l)
	}
	b.Says = b.says()
	return b
}

// unitOf is what a limit counts.
func unitOf(l core.Limit) string {
	if l.Unit == "" {
		return core.Requests
	}
	return l.Unit
}

// ceil is a wait, rounded up so that who waits so long has waited enough: to milliseconds below a second, and to seconds above.
func ceil(d time.Duration) string {
	unit := time.Second
	if d < time.Second {
		unit = time.Millisecond
	}
	return show.Duration((d + unit - 1) / unit * unit)
}

// says is the state in a sentence.
func (b *Bucket) says() string {
	switch worst := b.worst(); {
	case worst != nil:
		return "denied: " + worst.says()
	case b.Unused:
		return "allowed: never used, or not since it was full"
	}
	full, least := true, (*Limit)(nil)
	for i := range b.Limits {
		l := &b.Limits[i]
		full = full && l.full == 0 && l.Left == l.Capacity
		if least == nil || share(l) < share(least) {
			least = l
		}
	}
	if full || least == nil {
		return "allowed: full"
	}
	return fmt.Sprintf("allowed: %s of %s left of %s", show.Count(least.Left), show.Count(least.Capacity), least.Name)
}

// worst is the limit that denies longest, or nil.
func (b *Bucket) worst() (worst *Limit) {
	for i := range b.Limits {
		if l := &b.Limits[i]; l.Denies && (worst == nil || l.retry > worst.retry) {
			worst = l
		}
	}
	return worst
}

// share is which part of its capacity a limit has left; below 0 in debt.
func share(l *Limit) float64 { return float64(l.Left-l.Debt) / float64(l.Capacity) }

// says is why a limit denies.
func (l *Limit) says() string {
	next := "next token in " + ceil(min(l.retry, core.Never/2))
	if l.cost > 1 {
		next = fmt.Sprintf("%s tokens in %s", show.Count(l.cost), ceil(min(l.retry, core.Never/2)))
	}
	switch {
	case l.retry == core.Never:
		return fmt.Sprintf("%s is more than %s can ever have: its capacity is %s", show.Count(l.cost), l.Name, show.Count(l.Capacity))
	case l.slots && l.Left > 0:
		return fmt.Sprintf("%s has %s of %s slots free, and enough in %s at the latest, or when requests end", l.Name, show.Count(l.Left), show.Count(l.Capacity), ceil(l.retry))
	case l.slots:
		return fmt.Sprintf("all %s of %s are in use; the next is free in %s at the latest, or when a request ends", show.Some(l.Capacity, "slot"), l.Name, ceil(l.retry))
	case l.Debt > 0:
		return fmt.Sprintf("%s owes %s, %s", l.Name, show.Some(l.Debt, "token"), next)
	case l.Left > 0:
		return fmt.Sprintf("%s has %s left, %s", l.Name, show.Some(l.Left, "token"), next)
	}
	return fmt.Sprintf("%s is used up, %s", l.Name, next)
}

// Deeper reports whether b is worse off than c: it owes more of its capacity, or has less left, or waits longer.
func (b *Bucket) Deeper(c *Bucket) bool {
	if x, y := b.level(), c.level(); x != y {
		return x < y
	}
	if x, y := b.retry/time.Second, c.retry/time.Second; x != y {
		return x > y
	}
	return b.Key < c.Key
}

func (b *Bucket) level() float64 {
	least := 1.0
	for i := range b.Limits {
		least = min(least, share(&b.Limits[i]))
	}
	return least
}
