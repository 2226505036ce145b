package core_test

import (
	"context"
	"fmt"
	"math/big"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
)

// model is the documented bucket in exact fractions. It is written from the
// documentation, not from the code. Each limit has tokens and a time. Elapsed
// time counts in whole grains, and the time advances by just those.
type model struct {
	limits []core.Limit
	used   bool // the key exists
	tokens []*big.Rat
	ts     []int64 // µs since 1970
}

func newModel(limits []core.Limit) *model { return &model{limits: limits} }

// exactly returns the decimal number that f is written as.
func exactly(f float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return r
}

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// grain returns the refill interval in whole µs, rounded up, or 1 µs for
// Continuous limits.
func grain(l core.Limit) int64 {
	if l.Mode == core.Continuous {
		return 1
	}
	return (l.RefillInterval.Nanoseconds() + 999) / 1000
}

// perGrain returns how many tokens a grain adds.
func perGrain(l core.Limit) *big.Rat {
	rate := exactly(l.RefillRate)
	if l.Mode == core.Continuous {
		rate.Quo(rate, big.NewRat(l.RefillInterval.Nanoseconds(), 1000))
	}
	return rate
}

func roundUp(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return n.Quo(n, r.Denom()).Int64()
}

func anchor(l core.Limit, now int64) int64 {
	if l.Mode == core.Aligned {
		return now - now%grain(l)
	}
	return now
}

// refilled returns the state at now. back reports whether the clock stepped
// back.
func (m *model) refilled(now int64) (tokens []*big.Rat, ts []int64, back bool) {
	for i, l := range m.limits {
		full := whole(l.Capacity)
		if !m.used {
			tokens, ts = append(tokens, full), append(ts, anchor(l, now))
			continue
		}
		have, at := new(big.Rat).Set(m.tokens[i]), m.ts[i]
		if at > now {
			// The next interval that counts is a whole one from now on.
			if at = now; l.Mode == core.Aligned {
				at = roundUp(big.NewRat(now, grain(l))) * grain(l)
			}
			back = back || at != m.ts[i]
		}
		grains := (now - at) / grain(l)
		have.Add(have, new(big.Rat).Mul(whole(grains), perGrain(l)))
		at += grains * grain(l)
		if have.Cmp(full) >= 0 { // as if it was never used: its intervals begin with its next use
			have, at = full, max(at, anchor(l, now)) // the former after the clock was set back
		}
		tokens, ts = append(tokens, have), append(ts, at)
	}
	return tokens, ts, back
}

// decision is the model's answer to a request. A retry of -1 means never.
type decision struct {
	allowed     bool
	remaining   []int64
	retry, full int64 // µs
}

// longestDelay is 71 years, in µs.
const longestDelay = 1 << 51

func (m *model) until(i int, have *big.Rat, ts int64, want *big.Rat, now int64) int64 {
	missing := new(big.Rat).Sub(want, have)
	if missing.Sign() <= 0 {
		return 0
	}
	wait := new(big.Int).Mul(big.NewInt(roundUp(missing.Quo(missing, perGrain(m.limits[i])))), big.NewInt(grain(m.limits[i])))
	return min(ts+wait.Int64()-now, longestDelay)
}

func (m *model) take(cost, now int64) decision {
	tokens, ts, back := m.refilled(now)
	d := decision{allowed: true}
	for i, l := range m.limits {
		if tokens[i].Cmp(whole(cost)) >= 0 {
			continue
		}
		d.allowed = false
		if cost > l.Capacity {
			d.retry = -1
		} else if d.retry >= 0 {
			if d.retry = max(d.retry, m.until(i, tokens[i], ts[i], whole(cost), now)); d.retry == longestDelay {
				d.retry = -1
			}
		}
	}
	if d.allowed {
		for i := range tokens {
			tokens[i] = new(big.Rat).Sub(tokens[i], whole(cost))
		}
	}
	// The key is written if tokens are taken or the clock stepped back: "ts
	// re-anchors to the new now".
	if d.allowed && cost > 0 || back {
		m.used, m.tokens, m.ts = true, tokens, ts
	}
	d.read(m, tokens, ts, now)
	return d
}

func (d *decision) read(m *model, tokens []*big.Rat, ts []int64, now int64) {
	for i, l := range m.limits {
		d.remaining = append(d.remaining, new(big.Int).Quo(tokens[i].Num(), tokens[i].Denom()).Int64())
		d.full = max(d.full, m.until(i, tokens[i], ts[i], whole(l.Capacity), now))
	}
}

func (m *model) refund(n, now int64) {
	if !m.used || n == 0 {
		return
	}
	tokens, ts, write := m.refilled(now)
	for i, l := range m.limits {
		full := whole(l.Capacity)
		write = write || tokens[i].Cmp(full) < 0 // else nothing comes back
		if tokens[i] = new(big.Rat).Add(tokens[i], whole(n)); tokens[i].Cmp(full) > 0 {
			tokens[i] = full
		}
	}
	if write {
		m.tokens, m.ts = tokens, ts
	}
}

// toTheMicrosecond reports whether a grain adds a whole number of units. A unit
// is the fraction of a token that fits a double beside the capacity.
func toTheMicrosecond(l core.Limit) bool {
	units := new(big.Int).Mul(perGrain(l).Denom(), big.NewInt(l.Capacity))
	return units.Cmp(big.NewInt(1<<50)) <= 0
}

func TestMemoryStoreMatchesTheModel(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		clock := limitdraw.Clock(t)
		limits := limitdraw.Limits(limitdraw.Limit.Filter(toTheMicrosecond)).Draw(t, "limits")
		l := core.Must(core.NewLimiter(core.NewMemoryStore(core.WithClock(clock.Now)), core.Policy{Name: "api", Limits: limits}))
		m := newModel(limits)
		retry := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			clock.Move(limitdraw.Move(limits, retry).Draw(t, "move"))
			now := clock.Now().UnixMicro()
			cost := limitdraw.Cost(limits).Draw(t, "cost")
			switch rapid.SampledFrom([]string{"take", "take", "take", "peek", "refund", "back", "reset"}).Draw(t, "operation") {
			case "peek":
				cost = 0
			case "refund":
				if err := l.Refund(ctx, "user", cost); err != nil {
					t.Fatal(err)
				}
				m.refund(cost, now)
				cost = 0
			case "back":
				clock.Move(-limitdraw.Back.Draw(t, "back"))
				now = clock.Now().UnixMicro()
			case "reset":
				if err := l.Reset(ctx, "user"); err != nil {
					t.Fatal(err)
				}
				m.used = false
			}
			res := core.Must(l.AllowN(ctx, "user", cost))
			got := decision{allowed: res.Allowed, retry: res.RetryAfter.Microseconds(), full: res.ResetAfter.Microseconds()}
			if res.RetryAfter == core.Never {
				got.retry = -1
			}
			for _, limit := range res.Limits() {
				got.remaining = append(got.remaining, limit.Remaining)
			}
			if want := m.take(cost, now); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("a cost of %d at %d on %+v:\n       got %+v\nthe model %+v", cost, now, limits, got, want)
			}
			retry = res.RetryAfter
		}
	})
}
