package adminlimit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Bucket is the state of a key.
type Bucket struct {
	Policy string  `json:"policy"`
	Plan   string  `json:"plan,omitempty"` // by whose limits; none: the policy's own
	Key    string  `json:"key"`
	Says   string  `json:"says"`    // whether a request is allowed, in words
	Allows bool    `json:"allowed"` // whether a request is that takes one of each unit
	Source string  `json:"source"`  // who knows
	Limits []Level `json:"limits"`  // none if Redis does not answer and the policy fails open

	// Exceptions are those of the key.
	Exceptions []Exception `json:"exceptions"`
}

// Level is what a limit has left.
type Level struct {
	Name      string  `json:"name"`
	Limit     string  `json:"limit"`
	Says      string  `json:"says"`
	Remaining int64   `json:"remaining"`
	Capacity  int64   `json:"capacity"`
	RetryIn   float64 `json:"retry_in_seconds,omitempty"` // until the limit has a token; 0: it has
	FullIn    float64 `json:"full_in_seconds"`
}

// look returns the bucket of a key, by the limits of a plan, or by the policy's
// own.
func (h *handler) look(ctx context.Context, l *core.Limiter, plan, key string) (*Bucket, error) {
	of, err := l.WithPlan(plan)
	if err != nil {
		return nil, err
	}
	p := l.Policy()
	b := &Bucket{Policy: p.Name, Plan: plan, Key: text(key), Limits: []Level{}, Exceptions: []Exception{}}
	for _, e := range exceptionsOf(l) {
		if e.Key == text(store.Key(key)) {
			b.Exceptions = append(b.Exceptions, e)
		}
	}
	blocker := ""
	switch {
	case slices.ContainsFunc(b.Exceptions, func(e Exception) bool { return e.Blocked }):
		blocker = "an operator"
	case slices.Contains(p.Blocked, key):
		blocker = "the policy"
	}
	res, err := of.Peek(ctx, key)
	if err != nil {
		return nil, err
	}
	full, retry := true, time.Duration(0)
	for _, r := range res.Limits() {
		if blocker != "" { // then the limits only say what is left
			r.Violated, r.RetryAfter = false, 0
		}
		b.Limits = append(b.Limits, level(r))
		full, retry = full && r.ResetAfter == 0, max(retry, r.RetryAfter)
	}
	b.Source, b.Allows = res.Source.String(), p.Shadow || blocker == "" && res.Allowed
	switch {
	case blocker != "":
		b.Says = "denied: " + blocker + " blocks the key"
	case len(b.Limits) == 0:
		b.Says = "not known: Redis does not answer"
	case !res.Allowed || res.ShadowDenied:
		b.Says = "denied"
		b.Says += ": the next request is allowed in " + wait(retry)
	case full:
		b.Says = "allowed: all limits are full, as of a key that nobody has used"
	default:
		b.Says = "allowed"
	}
	if res.Source == core.FromFallback {
		b.Says += "; of this process alone, since Redis does not answer"
	}
	if p.Shadow {
		b.Says += "; in shadow mode each request is allowed"
	}
	return b, nil
}

// level returns the state of a limit.
func level(r core.LimitResult) Level {
	name := r.Limit.Name
	r.Limit.Name = ""
	l := Level{Name: name, Limit: r.Limit.String(), Remaining: r.Remaining, Capacity: r.Limit.Capacity, FullIn: r.ResetAfter.Seconds()}
	kind, bound := "tokens left", ""
	if r.Limit.Mode == core.Concurrent {
		kind = "slots free"
	}
	if r.Limit.Mode == core.Concurrent || r.Limit.MaxHold > 0 { // what is held may come back earlier
		bound = " at the latest"
	}
	l.Says = fmt.Sprintf("%d of %d %s", r.Remaining, l.Capacity, kind)
	if r.Debt > 0 {
		l.Says = fmt.Sprintf("owes %d tokens", r.Debt)
	}
	switch {
	case r.Violated:
		l.RetryIn = r.RetryAfter.Seconds()
		l.Says += ", enough in " + wait(r.RetryAfter) + bound
	case r.ResetAfter > 0:
		l.Says += ", full in " + wait(r.ResetAfter) + bound
	}
	return l
}

// wait returns d rounded up: who waits so long has waited enough.
func wait(d time.Duration) string {
	step := time.Millisecond
	switch {
	case d > 48*time.Hour:
		return fmt.Sprintf("%d days", (d+24*time.Hour-1)/(24*time.Hour))
	case d > time.Second:
		step = time.Second
	}
	short := ((d + step - 1) / step * step).String()
	if strings.HasSuffix(short, "m0s") {
		short = strings.TrimSuffix(short, "0s")
	}
	if strings.HasSuffix(short, "h0m") {
		short = strings.TrimSuffix(short, "0m")
	}
	return short
}
