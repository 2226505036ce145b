package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// bucket is the state of a key.
type bucket struct {
	Policy  string  `json:"policy"`
	Key     string  `json:"key"`               // as commands take it
	Stored  bool    `json:"stored"`            // Redis has the key; else it was never used, or not since it was full
	Allowed *bool   `json:"allowed,omitempty"` // the next request passes; missing: not known without --policies
	Says    string  `json:"says"`              // the verdict in words, or what is stored
	Plan    string  `json:"plan,omitempty"`    // whose limits these are, if not the policy's own
	Shadow  bool    `json:"shadow,omitempty"`  // the policy is in shadow mode, so it denies nobody
	Note    string  `json:"note,omitempty"`    // how the limits that wrote the state differ from those of the file
	Blocked bool    `json:"blocked,omitempty"` // by the policy or an operator
	Limits  []limit `json:"limits"`

	byFile bool // what the limits are now; else what they were when they were last used
	wait   time.Duration
}

// limit is the state of one limit of a key.
type limit struct {
	Name     string `json:"name"`            // "": not known without --policies
	Limit    string `json:"limit,omitempty"` // its definition; missing: not known without --policies
	Unit     string `json:"unit,omitempty"`  // what it counts, if not requests
	Capacity int64  `json:"capacity"`
	Left     int64  `json:"left"`           // tokens; below 0: a debt. Without --policies as of the last use
	Held     int64  `json:"held,omitempty"` // tokens that come back: slots in use, and estimates that are not settled

	RetryIn float64 `json:"retry_in_seconds,omitempty"` // until the request is allowed; -1: never, as it asks for too much or is blocked
	FullIn  float64 `json:"full_in_seconds,omitempty"`  // until all tokens are back, if nobody uses it; at the latest: of holds, and without --policies
	Used    float64 `json:"used_seconds_ago,omitempty"` // the last use was within so many seconds; without --policies
}

// share is which part of its capacity a limit has left.
func (l *limit) share() float64 { return float64(l.Left) / float64(l.Capacity) }

// look returns the state of a key as stores have it: by the file, what the
// next request would get, or without a file what is stored. plan is "" for the one that
// decided the key last. quick leaves out what costs a call of its own for each
// key.
func (d *desk) look(ctx context.Context, policy, key, plan string, quick bool) (*bucket, error) {
	if !d.has(policy) {
		return d.stored(ctx, policy, key)
	}
	rules, err := d.rulesOf(ctx, policy)
	if err != nil {
		return nil, err
	}
	b := &bucket{Policy: policy, Key: show.Key(key), Stored: true, Shadow: d.policies[policy].Shadow}
	var kept redisstore.BucketState
	switch {
	case plan != "":
		if rules = rules.ofPlan(plan); rules == nil {
			return nil, misuse("%s has no plan %s%s", show.Text(policy), show.Text(plan), meant(plan, slices.Sorted(maps.Keys(d.policies[policy].Plans))))
		}
		kept, err = rules.inspect(ctx, d.store, key)
	case !quick || rules.hasPlans():
		rules, kept, err = rules.last(ctx, d.store, key)
	}
	if err != nil {
		return nil, err
	}
	res, err := rules.limiter.Peek(ctx, key)
	if err != nil {
		return nil, err
	}
	b.Plan, b.Allowed, b.byFile, b.wait = rules.plan, &res.Allowed, true, res.RetryAfter
	if !quick {
		b.Stored = len(kept.Limits)+kept.Others > 0
	}
	if len(rules.overrides[key]) == 0 { // an override may have come since
		b.Note = differs(kept)
	}
	b.Says = saysState(res, !b.Stored)
	if says := rules.blocked[key]; says != "" {
		b.Says, b.Blocked = says, true
	}
	for _, r := range res.Limits() {
		l := limit{Name: r.Limit.Name, Capacity: r.Limit.Capacity, Left: r.Remaining - r.Debt, FullIn: r.ResetAfter.Seconds(), RetryIn: r.RetryAfter.Seconds()}
		if r.RetryAfter == core.Never {
			l.RetryIn = -1
		}
		if unit := unitOf(r.Limit); unit != core.Requests {
			l.Unit = unit
		}
		for _, k := range kept.Limits {
			if k.Limit.Name == r.Limit.Name {
				l.Held = k.Held
			}
		}
		r.Limit.Name = ""
		l.Limit = r.Limit.String()
		b.Limits = append(b.Limits, l)
	}
	return b, nil
}

// stored returns what Redis has of a key.
func (d *desk) stored(ctx context.Context, policy, key string) (*bucket, error) {
	records, now, err := d.store.Records(ctx, policy, key)
	if err != nil {
		return nil, err
	}
	b := &bucket{Policy: policy, Key: show.Key(key), Stored: len(records) > 0, Limits: []limit{}, Says: "nothing is stored: never used, or not since it was full"}
	var least *limit
	for _, r := range records {
		b.Limits = append(b.Limits, limit{
			Name: r.Name, Capacity: r.Capacity, Left: r.Capacity - r.Used, Held: r.Held, FullIn: max(0, r.Full.Sub(now).Seconds()), Used: max(0, now.Sub(r.Written).Seconds()),
		})
	}
	for i := range b.Limits {
		if l := &b.Limits[i]; least == nil || l.share() < least.share() {
			least = l
		}
	}
	if least != nil {
		b.Says = fmt.Sprintf("%s of %s tokens left", show.Count(least.Left), show.Count(least.Capacity))
		if least.Left < 0 {
			b.Says = "owed " + show.Some(-least.Left, "token")
		}
		if least.Name != "" {
			b.Says += " of " + least.Name
		}
		b.Says += " when last used, in the last " + show.Wait(seconds(least.Used))
	}
	return b, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// passes reports whether the next request is not known to be denied.
func (b *bucket) passes() bool { return b.Allowed == nil || *b.Allowed || b.Shadow }

// worse orders buckets: those that owe most or have least left, then those that
// wait longest.
func (b *bucket) worse(other *bucket) int {
	least := func(b *bucket) float64 {
		share := 1.0
		for i := range b.Limits {
			share = min(share, b.Limits[i].share())
		}
		return share
	}
	switch x, y := least(b), least(other); {
	case x != y && x < y:
		return -1
	case x != y:
		return 1
	case b.wait/time.Second != other.wait/time.Second:
		return int(other.wait/time.Second - b.wait/time.Second)
	}
	return slices.Compare([]string{b.Policy, b.Key}, []string{other.Policy, other.Key})
}

// verdict is what b says, with the plan that decided it last.
func (b *bucket) verdict() string {
	says := b.Says
	if b.Plan != "" {
		says += " (plan " + show.Text(b.Plan) + ")"
	}
	return says
}

// Text writes the verdict and a table of limits.
func (b *bucket) Text(w *show.Writer) {
	w.Line("%s %s: %s", show.Text(b.Policy), b.Key, b.verdict())
	header, rows := []string{"limit", "left", "capacity", "this request", "full", ""}, [][]string(nil)
	if !b.byFile {
		header[3], header[4] = "last used", "full at the latest"
	}
	for i := range b.Limits {
		l := &b.Limits[i]
		name, next, full := l.Name, "allowed now", "now"
		if name == "" {
			name = fmt.Sprintf("(limit %d)", i+1)
		}
		switch {
		case !b.byFile:
			next = "in the last " + show.Wait(seconds(l.Used))
		case b.Blocked:
			next = "blocked"
		case l.RetryIn < 0:
			next = "never allowed"
		case l.RetryIn > 0:
			next = "allowed in " + show.Wait(seconds(l.RetryIn))
		}
		if l.FullIn > 0 {
			full = "in " + show.Wait(seconds(l.FullIn))
			if b.byFile && l.Held > 0 {
				full += " at the latest"
			}
		}
		notes := ""
		if l.Unit != "" {
			notes = "counts " + show.Text(l.Unit)
		}
		if l.Held > 0 {
			notes = join(notes, show.Count(l.Held)+" held")
		}
		rows = append(rows, []string{show.Text(name), show.Count(l.Left), show.Count(l.Capacity), next, full, notes})
	}
	w.Table(2, header, rows)
	if b.Note != "" {
		w.Line("  %s: the service may have other limits than this file.", b.Note)
	}
	if b.Shadow {
		w.Line("  The policy is in shadow mode: it denies nobody.")
	}
}

// join joins two notes, of which the first may be empty.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}
