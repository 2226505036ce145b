package adminlimit

import (
	"context"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

type bucket struct {
	Policy   string   `json:"policy"`
	Plan     string   `json:"plan,omitempty"` // whose limits the key was last decided by, if not by the policy's own
	Key      string   `json:"key"`
	LogKey   string   `json:"log_key,omitempty"` // as the limiter's log shows it; of a long key's hash it is not known
	Says     string   `json:"says"`              // what ratelimit get says too
	Source   string   `json:"source"`            // who knows
	Override bool     `json:"override"`          // the key has limits of its own
	Blocked  bool     `json:"blocked"`           // the policy or an operator blocks the key
	Unknown  bool     `json:"unknown,omitempty"` // whether a request passes is not known: see Says
	Unused   bool     `json:"unused"`            // the store has no bucket, so it is full
	Shadow   bool     `json:"shadow"`            // the policy is in shadow mode, so every request passes
	Passes   bool     `json:"passes"`            // a request that takes one of each unit would pass now
	Limits   []level  `json:"limits"`            // empty if the store does not answer
	Nearest  []string `json:"nearest,omitempty"` // keys that this process knows, if the store has no bucket of this one
	AtLeast  int64    `json:"denied"`            // how often the key was denied at least, if it is among those that are denied most

	key    string // what Key shows
	stored string // the key as stores have it
}

type level struct {
	Name      string  `json:"name"`
	Limit     string  `json:"limit"`
	From      string  `json:"from,omitempty"` // the plan or override that it comes from, in words; none: the policy's own
	Remaining int64   `json:"remaining"`
	Capacity  int64   `json:"capacity"`
	FullIn    float64 `json:"full_in_seconds"`
	RetryIn   float64 `json:"retry_in_seconds,omitempty"` // until the limit has the tokens; 0 if it has, or never will
}

// peek asks what is left to a key that someone gives. reset, of the limiter
// that takes keys as stores have them, resets the same bucket.
func (h *Handler) peek(ctx context.Context, l *core.Limiter, given string) (b *bucket, res core.Result, reset func() error, err error) {
	key := h.meant(l, given)
	p, stored := l.Policy(), oncall.StoredKey(key)
	byStored := l.WithStoredKeys()
	rules := oncall.RulesOf(byStored)
	rules, found, err := rules.Last(ctx, stored)
	if err == nil {
		res, err = rules.Limiter.PeekUnits(ctx, stored, rules.Request(stored))
	}
	if err != nil {
		return nil, res, nil, err
	}
	unused, doubt := false, rules.Doubt(stored, found, "this process")
	if res.Allowed && doubt == "" {
		now, err := rules.Limiter.Peek(ctx, stored) // only a Peek tells it, and one by other limits would leave them in the store
		unused = err == nil && now.Unused
	}
	b = &bucket{
		Policy: p.Name, Plan: rules.Plan, key: key, Key: oncall.ShownKey(key), Says: oncall.Says(res, unused), Source: res.Source.String(), Unused: unused,
		Override: rules.Owner(stored) != "", Shadow: p.Shadow, Passes: res.Allowed, Limits: []level{}, stored: stored,
	}
	if says := rules.Blocked(stored); says != "" {
		b.Blocked, b.Says, b.Passes = true, says, p.Shadow
	} else if doubt != "" {
		b.Unknown, b.Says, b.Passes = true, doubt, p.Shadow
	}
	if b.Unused && !b.Blocked {
		b.Nearest = h.nearest(l, key)
	}
	if stored != key || !strings.HasPrefix(key, "sha256:") {
		b.LogKey = l.LogKey(key)
	}
	for _, limit := range res.Limits() {
		name, from := limit.Limit.Name, rules.From(stored, limit.Limit)
		limit.Limit.Name = ""
		one := level{Name: name, From: from, Limit: limit.Limit.String(), Remaining: limit.Remaining, Capacity: limit.Limit.Capacity, FullIn: limit.ResetAfter.Seconds()}
		if limit.RetryAfter != core.Never {
			one.RetryIn = limit.RetryAfter.Seconds()
		}
		b.Limits = append(b.Limits, one)
	}
	return b, res, func() error { return byStored.Reset(ctx, stored) }, nil
}

// meant returns the key that someone gives: the one that the log shows so, if
// it is among those that are denied most, blocked, or have limits of their own,
// and else what they give.
func (h *Handler) meant(l *core.Limiter, given string) string {
	if !oncall.IsHex(given, oncall.LogDigits) {
		return given
	}
	for _, key := range h.known(l) {
		if l.LogKey(key) == given {
			return key
		}
	}
	return given
}

// countOf returns how often b's key was denied at least; 0 if it is not listed.
func (b *bucket) countOf(top *denied.Top, p denied.Policy) int64 {
	for _, k := range p.Keys {
		if k.Key == b.stored || top.Hashed() && (k.Key == b.key || k.Key == top.Form(b.key)) {
			return k.AtLeast
		}
	}
	return 0
}
