package adminlimit

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/bucketform"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// The page looks up the keys that are denied most: so many of a policy, and of
// all policies, within this time.
const (
	lookedUp      = 5
	lookedUpAll   = 20
	lookUpTimeout = time.Second
)

// denials is who a policy denies now.
type denials struct {
	denied.Policy

	Keys []deniedKey // the most denied first
}

// deniedKey is a key that was denied, with its bucket, if that was looked up.
type deniedKey struct {
	denied.Key

	Bucket *bucket
}

// now looks up the keys that are denied most, for the page.
func (h *Handler) now(ctx context.Context, a *answer) {
	if a.Denied == nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, lookUpTimeout)
	defer stop()
	more := lookedUpAll
	for _, p := range a.Denied.Policies {
		d := denials{Policy: p}
		for i, k := range p.Keys {
			one := deniedKey{Key: k}
			if i < lookedUp && more > 0 && a.CanPeek(p.Policy) && ctx.Err() == nil {
				more--
				one.Bucket = h.bucketOf(ctx, p.Policy, k.Key)
			}
			d.Keys = append(d.Keys, one)
		}
		a.Now = append(a.Now, d)
	}
}

// bucketOf returns the bucket of a key as the page shows it, or nil if the
// store does not say.
func (h *Handler) bucketOf(ctx context.Context, policy, shown string) *bucket {
	key, err := oncall.GivenKey(shown)
	if err != nil {
		return nil
	}
	b, _, _, err := h.peek(ctx, h.byName[policy], key)
	if err != nil {
		return nil
	}
	return b
}

// Says is how many requests of the policy were denied, and since when.
func (d denials) Says() string {
	since := d.From.UTC().Format("15:04 UTC")
	if from, until := d.From.UTC(), d.Until.UTC(); from.YearDay() != until.YearDay() || from.Year() != until.Year() {
		since = from.Format("2006-01-02 15:04 UTC")
	}
	says := oncall.Count(d.Denied) + " denied since " + since
	switch {
	case d.Shadow == 0:
	case d.Shadow == d.Denied:
		says += ", all by shadow mode alone: the requests were allowed"
	default:
		says += fmt.Sprintf(", %s of these by shadow mode alone", oncall.Count(d.Shadow))
	}
	return says
}

// Real reports whether the policy has denied requests, and not in shadow mode
// alone.
func (d denials) Real() bool { return d.Denied > d.Shadow }

// Quiet are the policies that deny nobody.
func (a *answer) Quiet() (names []string) {
	for _, p := range a.Policies {
		quiet := true
		for _, d := range a.Now {
			quiet = quiet && d.Policy.Policy != p.Name
		}
		if quiet {
			names = append(names, p.Name)
		}
	}
	return names
}

// Class is how the page shows what b says: good only if the key is known and a
// request passes.
func (b *bucket) Class() string {
	switch {
	case b.Blocked:
		return "bad"
	case b.Unknown || b.Unused || len(b.Limits) == 0:
		return "unsure"
	case b.Passes && !b.Denies():
		return "good"
	}
	return "bad"
}

// Denies reports whether a limit of b has too few tokens, also in shadow mode.
func (b *bucket) Denies() bool {
	for _, l := range b.Limits {
		if l.RetryIn > 0 {
			return true
		}
	}
	return false
}

// Tightest is the limit that keeps b waiting longest, or has the least share of
// its tokens left. A bucket that the store does not show has none.
func (b *bucket) Tightest() (tightest *level) {
	for i := range b.Limits {
		l := &b.Limits[i]
		if tightest == nil || l.RetryIn > tightest.RetryIn || l.RetryIn == tightest.RetryIn && l.share() < tightest.share() {
			tightest = l
		}
	}
	return tightest
}

// share is which part of its capacity a limit has left.
func (l *level) share() float64 { return float64(l.Remaining) / float64(max(1, l.Capacity)) }

// form is the bucket that the page draws for each limit.
var form = bucketform.Of(14, 24, 4.2, bucketform.Countable)

// Body, Mouth and Water are the paths of what is drawn.
func (l *level) Body() string  { return form.Body() }
func (l *level) Mouth() string { return form.Mouth() }
func (l *level) Water() string { return form.Water(l.share()) }
