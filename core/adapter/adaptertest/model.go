package adaptertest

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// bucket is a token bucket in exact fractions, written independently of core.
// The expected header fields are computed from it.
type bucket struct {
	name     string
	capacity int64
	tokens   *big.Rat // T in the header drafts
	perSec   *big.Rat // ρ
}

func newBucket(l core.Limit) *bucket {
	perSec := new(big.Rat).SetFloat64(l.RefillRate)
	perSec.Quo(perSec, big.NewRat(int64(l.RefillInterval), int64(time.Second)))
	return &bucket{l.Name, l.Capacity, new(big.Rat).SetInt64(l.Capacity), perSec}
}

// refill lets d pass.
func (b *bucket) refill(d time.Duration) {
	gain := new(big.Rat).Mul(b.perSec, big.NewRat(int64(d), int64(time.Second)))
	if b.tokens.Add(b.tokens, gain); b.tokens.Cmp(whole(b.capacity)) > 0 {
		b.tokens.SetInt64(b.capacity)
	}
}

func (b *bucket) has(cost int64) bool { return b.tokens.Cmp(whole(cost)) >= 0 }
func (b *bucket) take(cost int64)     { b.tokens.Sub(b.tokens, whole(cost)) }

// remaining returns floor(T).
func (b *bucket) remaining() int64 {
	return new(big.Int).Quo(b.tokens.Num(), b.tokens.Denom()).Int64()
}

// secondsUntil returns in how many seconds the bucket holds n tokens, as an
// exact fraction.
func (b *bucket) secondsUntil(n int64) *big.Rat {
	missing := new(big.Rat).Sub(whole(n), b.tokens)
	if missing.Sign() < 0 {
		return new(big.Rat)
	}
	return missing.Quo(missing, b.perSec)
}

// window returns w=ceil(B/ρ), where B is the capacity and ρ the refill per
// second.
func (b *bucket) window() int64 { return ceil(new(big.Rat).Quo(whole(b.capacity), b.perSec)) }

// draft8 returns r and t of the RateLimit field after a decision. known is
// false if there is no t, because the request can never pass.
func (b *bucket) draft8(cost int64, allowed bool) (r, t int64, known bool) {
	switch {
	case !allowed && cost > b.capacity:
		return 0, 0, false
	case !allowed && !b.has(cost):
		return 0, max(1, ceil(b.secondsUntil(cost))), true
	case b.remaining() == 0:
		return 0, max(1, ceil(b.secondsUntil(1))), true
	default:
		return b.remaining(), ceil(new(big.Rat).Quo(b.tokens, b.perSec)), true
	}
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func ceil(r *big.Rat) int64 {
	n, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return n.Int64() + 1
	}
	return n.Int64()
}

// model holds the buckets of a policy.
type model []*bucket

func newModel(limits ...core.Limit) model {
	var m model
	for _, l := range limits {
		m = append(m, newBucket(l))
	}
	return m
}

func (m model) refill(d time.Duration) {
	for _, b := range m {
		b.refill(d)
	}
}

// take decides a request. It takes the tokens from all buckets or from none.
func (m model) take(cost int64) (allowed bool) {
	for _, b := range m {
		if !b.has(cost) {
			return false
		}
	}
	for _, b := range m {
		b.take(cost)
	}
	return true
}

// retryAfter returns the seconds after which a denied request can pass. never
// is true if it costs more than a capacity.
func (m model) retryAfter(cost int64) (seconds int64, never bool) {
	for _, b := range m {
		never = never || cost > b.capacity
		seconds = max(seconds, 1, ceil(b.secondsUntil(cost)))
	}
	return seconds, never
}

// tightest returns the bucket whose values are in the single-valued fields: for
// a denial the one with the longest wait, otherwise the one with the fewest
// tokens. If these are equal, it is the one that takes longest to fill.
func (m model) tightest(cost int64, allowed bool) *bucket {
	return slices.MaxFunc(m, func(a, b *bucket) int {
		wait := 0
		if !allowed {
			wait = compareWaits(a, b, cost)
		}
		return cmp.Or(wait, cmp.Compare(b.remaining(), a.remaining()),
			a.secondsUntil(a.capacity).Cmp(b.secondsUntil(b.capacity)))
	})
}

// compareWaits compares how long a and b make a client wait for cost tokens.
// Never is longest.
func compareWaits(a, b *bucket, cost int64) int {
	switch aNever, bNever := cost > a.capacity, cost > b.capacity; {
	case aNever && bNever:
		return 0
	case aNever:
		return 1
	case bNever:
		return -1
	}
	return a.secondsUntil(cost).Cmp(b.secondsUntil(cost))
}
