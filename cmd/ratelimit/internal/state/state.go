// Package state says in words what a bucket in Redis has.
package state

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// Limit is the state of one limit.
type Limit struct {
	Name     string `json:"name"`           // of the limit
	Unit     string `json:"unit"`           // what it counts
	Text     string `json:"limit"`          // its definition
	From     string `json:"from,omitempty"` // the plan or override that it comes from, in words; missing: the policy's own
	Capacity int64  `json:"capacity"`       // the most tokens that it has
	Left     int64  `json:"left"`           // tokens that are left
	Debt     int64  `json:"debt,omitempty"` // tokens that are owed

	Denies     bool    `json:"denies"`                        // it has too few tokens for the request
	RetryAfter float64 `json:"retry_after_seconds,omitempty"` // until the request is allowed; missing if it is, or never will be
	Never      bool    `json:"never,omitempty"`               // the request is never allowed
	FullIn     float64 `json:"full_in_seconds"`               // until all tokens are back

	InUse    int64  `json:"in_use,omitempty"`   // slots at work
	Held     int64  `json:"held,omitempty"`     // tokens of estimates that are not settled
	Reserved int64  `json:"reserved,omitempty"` // tokens of reservations
	Leased   int64  `json:"leased,omitempty"`   // tokens that a process has taken ahead
	Changed  string `json:"changed,omitempty"`  // which other definition wrote it last, in words

	limit       core.Limit
	retry, full time.Duration
	slots       bool
}

// Bucket is the state of a bucket.
type Bucket struct {
	Policy   string  `json:"policy"`                       // its name
	Plan     string  `json:"plan,omitempty"`               // whose limits these are, if not the policy's own
	Key      string  `json:"key"`                          // as other commands take it
	Bytes    []byte  `json:"key_base64,omitempty"`         // the key itself, if key is quoted
	Allowed  bool    `json:"allowed"`                      // the request would pass
	Unknown  bool    `json:"unknown,omitempty"`            // whether it would pass is not known: see says
	Blocked  bool    `json:"blocked,omitempty"`            // the policy or an operator blocks the key
	Override string  `json:"override_by,omitempty"`        // who gave the key limits of its own
	Unused   bool    `json:"unused"`                       // Redis has no such key, so all limits are full
	Says     string  `json:"says"`                         // the verdict in words
	Expires  float64 `json:"expires_in_seconds,omitempty"` // when Redis forgets the key, if nobody uses it
	Others   int     `json:"other_limits,omitempty"`       // limits of the key that the policy lacks
	Limits   []Limit `json:"limits"`                       // of the key

	retry, expires time.Duration
}

// Of asks the store for the state of key's bucket, and whether units would
// pass. The limiter of rules takes keys as the store has them.
func Of(ctx context.Context, rules *oncall.Rules, key string, units core.Units) (*Bucket, error) {
	rules, stored, err := rules.Last(ctx, key)
	if err != nil {
		return nil, err
	}
	if units == nil {
		units = rules.Request(key)
	}
	res, err := rules.Limiter.PeekUnits(ctx, key, units)
	if err != nil {
		return nil, err
	}
	b := of(res, stored)
	b.name(rules, key)
	if doubt := rules.Doubt(key, stored, "this file"); doubt != "" && !b.Blocked {
		b.Allowed, b.Unknown, b.Says = false, true, doubt
	}
	return b, nil
}

// Sketch is Of without what only the store's own state tells. It costs one call
// that others share.
func Sketch(ctx context.Context, rules *oncall.Rules, key string, units core.Units) (*Bucket, error) {
	if rules.HasPlans() {
		return Of(ctx, rules, key, units)
	}
	if units == nil {
		units = rules.Request(key)
	}
	res, err := rules.Limiter.PeekUnits(ctx, key, units)
	if err != nil {
		return nil, err
	}
	b := of(res, inspect.Bucket{Others: -1})
	b.Others = 0
	b.name(rules, key)
	return b, nil
}

// Line is the state in a sentence, with the plan that decided the key last.
func (b *Bucket) Line() string {
	if b.Plan == "" || b.Unknown {
		return b.Says
	}
	return b.Says + " (plan " + strconv.Quote(b.Plan) + ")"
}

// name says whose bucket it is, and whether the policy blocks it.
func (b *Bucket) name(rules *oncall.Rules, key string) {
	b.Policy, b.Plan, b.Key, b.Override = rules.Limiter.Name(), rules.Plan, key, rules.Owner(key)
	if says := rules.Blocked(key); says != "" {
		b.Blocked, b.Says = true, says
	}
	for i := range b.Limits {
		b.Limits[i].From = rules.From(key, b.Limits[i].limit)
	}
}

func of(res core.Result, stored inspect.Bucket) *Bucket {
	b := &Bucket{Allowed: res.Allowed, Unused: len(stored.Limits) == 0 && stored.Others == 0, Others: max(0, stored.Others), retry: res.RetryAfter}
	b.expires, b.Expires = stored.Expires, stored.Expires.Seconds()
	for _, r := range res.Limits() {
		l := Limit{
			limit: r.Limit,
			Name:  r.Limit.Name, Unit: oncall.Unit(r.Limit), Text: fmt.Sprint(r.Limit), Capacity: r.Limit.Capacity, Left: r.Remaining, Debt: r.Debt,
			Denies: r.Violated, retry: r.RetryAfter, full: r.ResetAfter, slots: r.Limit.Mode == core.Concurrent,
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
	b.Says = oncall.Says(res, b.Unused)
	return b
}

// share is which part of its capacity a limit has left; below 0 in debt.
func share(l *Limit) float64 { return float64(l.Left-l.Debt) / float64(l.Capacity) }

// Deeper reports whether b is worse off than c: it owes more of its capacity,
// or has less left, or waits longer.
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
