package redisstore_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// seen holds everything that a caller can see of a decision.
type seen struct {
	Allowed                bool
	Remaining              int64
	RetryAfter, ResetAfter time.Duration
	Limits                 string
	Headers                string
	Cost                   int64
	OK                     bool
	Delay                  time.Duration
	Err                    string
}

func see(res core.Result, err error) seen {
	s := seen{Allowed: res.Allowed, Remaining: res.Remaining, RetryAfter: res.RetryAfter, ResetAfter: res.ResetAfter,
		Limits: fmt.Sprintf("%#v", res.Limits())}
	if err != nil {
		s.Err = err.Error()
		return s
	}
	h := http.Header{}
	res.WriteHeaders(h)
	s.Headers = fmt.Sprint(h)
	return s
}

// replica is one of the stores that must agree, with its limiter and
// reservations.
type replica struct {
	name     string
	store    core.Store
	limiter  *core.Limiter
	reserved []*core.Reservation
	results  []core.Result // that took tokens of the limits at that time
}

// after is what a caller sees of key after a call that returned err.
func (r *replica) after(ctx context.Context, key string, err error) seen {
	if err != nil {
		return seen{Err: err.Error()}
	}
	return see(r.limiter.Peek(ctx, key))
}

// took keeps a result, and is what a caller sees of it.
func (r *replica) took(res core.Result, err error) seen {
	if err == nil {
		r.results = append(r.results, res)
	}
	s := see(res, err)
	s.Cost = res.Cost
	return s
}

// reserve keeps a reservation, and is what a caller sees of it.
func (r *replica) reserve(ctx context.Context, key string, n int64) seen {
	reserved, err := r.limiter.Reserve(ctx, key, n)
	if err != nil {
		return seen{Err: err.Error()}
	}
	r.reserved = append(r.reserved, reserved)
	s := see(reserved.Result(), nil)
	s.OK, s.Delay = reserved.OK(), reserved.Delay()
	return s
}

// TestStoresAgree sends the same random requests on one key to the Lua script,
// to the reference implementation in Go in memory and to a store built on
// Request.Decide. All must answer the same.
func TestStoresAgree(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	storesAgree(t, client, math.MaxInt, limitdraw.AnyLimit)
}

// TestStoresAgreeOnWhatIsHeld is TestStoresAgree with limits of slots, and
// limits whose estimates come back.
func TestStoresAgreeOnWhatIsHeld(t *testing.T) {
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	storesAgree(t, client, math.MaxInt, limitdraw.HoldingLimit)
}

// refused are the errors of calls that can't be made, whatever the store.
var refused = []error{core.ErrUnit, core.ErrSlots, core.ErrExpired, core.ErrSettled}

// storesAgree runs at most so many simulations under drawn limits.
func storesAgree(t *testing.T, client *redis.Client, most int, limit *rapid.Generator[core.Limit]) {
	t.Helper()
	prefix := redistest.Prefix()
	var simulations int
	rapid.Check(t, func(t *rapid.T) {
		if simulations++; simulations > most {
			return
		}
		clock := limitdraw.Clock(t)
		a := &agreement{T: t, ctx: context.Background(), key: strconv.Itoa(simulations), clock: clock, limit: limit,
			common: limitdraw.Limits(limit).Draw(t, "limits"),
			replicas: []*replica{
				{name: "RedisStore", store: redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(clock.Now), longTimeout)},
				{name: "MemoryStore", store: core.NewMemoryStore(core.WithClock(clock.Now))},
				{name: "Decide", store: limittest.NewDecidingStore(clock.Now)},
			}}
		a.deploy()
		retry := time.Duration(0)
		for range rapid.IntRange(1, 30).Draw(t, "operations") {
			what := rapid.SampledFrom([]string{
				"take", "take", "units", "units", "peek", "refund", "reserve", "cancel", "reset", "deploy", "override", "back",
				"at most", "debit", "debit units", "settle", "undo", "release", "hold",
			}).Draw(t, "operation")
			clock.Move(limitdraw.Move(a.limits(), retry).Draw(t, "move"))
			do := a.operation(what)
			if do == nil {
				continue
			}
			want := do(a.replicas[0])
			if want.Err != "" && !slices.ContainsFunc(refused, func(err error) bool { return strings.Contains(want.Err, err.Error()) }) {
				t.Fatalf("%s: %s", what, want.Err)
			}
			for _, r := range a.replicas[1:] {
				if got := do(r); got != want {
					t.Fatalf("%s at %v: %s and %s must agree on %+v:\n%11s %+v\n%11s %+v", what, clock.Now().UnixMicro(),
						a.replicas[0].name, r.name, a.limits(), a.replicas[0].name, want, r.name, got)
				}
			}
			retry = want.RetryAfter
		}
	})
}

// agreement is one simulation of stores that must agree on one key.
type agreement struct {
	*rapid.T

	ctx              context.Context
	key              string
	clock            *limittest.Clock
	limit            *rapid.Generator[core.Limit]
	common, override []core.Limit // the policy's limits, and the key's own; nil: none
	replicas         []*replica
}

// limits returns those of the key.
func (a *agreement) limits() []core.Limit {
	if a.override != nil {
		return merged(named("api", a.common), a.override, func(l core.Limit) string { return l.Name })
	}
	return a.common
}

// deploy has all replicas decide by the limits. Half of the deployments change
// a running process.
func (a *agreement) deploy() {
	for _, r := range a.replicas {
		p := core.Policy{Name: "api", Limits: a.common, OnFailure: core.FailClosed}
		if a.override != nil {
			p.Overrides = map[string][]core.Limit{a.key: a.override}
			p.Plans = map[string][]core.Limit{"all": a.override} // so that it names limits that there are
		}
		if r.limiter != nil && len(p.Limits)%2 == 0 {
			err := r.limiter.SetPolicy(p)
			if err == nil {
				continue
			} else if !strings.Contains(err.Error(), "RL117") { // else it no longer counts what was taken: a new process does
				a.Fatalf("SetPolicy: %v", err)
			}
		}
		l, err := core.NewLimiter(r.store, p)
		if err != nil {
			a.Fatalf("NewLimiter: %v", err)
		}
		r.limiter = l
	}
}

// operation draws what each replica is to do, or returns nil if that can't be
// done now.
func (a *agreement) operation(what string) func(*replica) seen {
	ctx, key, limits := a.ctx, a.key, a.limits()
	switch what {
	case "take":
		cost := limitdraw.Cost(limits).Draw(a.T, "cost")
		return func(r *replica) seen { return r.took(r.limiter.AllowN(ctx, key, cost)) }
	case "units":
		units := limitdraw.Units(limits).Draw(a.T, "units")
		return func(r *replica) seen { return r.took(r.limiter.AllowUnits(ctx, key, units)) }
	case "at most":
		most := limitdraw.Cost(limits).Draw(a.T, "most")
		return func(r *replica) seen { return r.took(r.limiter.AllowAtMost(ctx, key, most)) }
	case "debit":
		n := limitdraw.Debt(limits).Draw(a.T, "debit")
		return func(r *replica) seen { return r.after(ctx, key, r.limiter.Debit(ctx, key, n)) }
	case "debit units":
		units := limitdraw.Units(limits).Draw(a.T, "debit")
		return func(r *replica) seen { return r.after(ctx, key, r.limiter.DebitUnits(ctx, key, units)) }
	case "reserve":
		n := limitdraw.Cost(limits).Draw(a.T, "reservation")
		return func(r *replica) seen { return r.reserve(ctx, key, n) }
	case "refund":
		n := limitdraw.Cost(limits).Draw(a.T, "refund")
		return func(r *replica) seen { return r.after(ctx, key, r.limiter.Refund(ctx, key, n)) }
	case "reset":
		return func(r *replica) seen { return r.after(ctx, key, r.limiter.Reset(ctx, key)) }
	case "settle", "undo", "cancel", "release", "hold":
		return a.giveBack(what)
	case "back":
		a.clock.Move(-limitdraw.Back.Draw(a.T, "back"))
		return func(r *replica) seen { return see(r.limiter.AllowN(ctx, key, 1)) }
	case "deploy":
		a.common = changeLimits(a.T, a.common, a.limit)
		a.deploy()
	case "override":
		if a.override == nil || rapid.Bool().Draw(a.T, "changed") {
			a.override = named("api", changeLimits(a.T, limits, a.limit))
		} else {
			a.override = nil
		}
		a.deploy()
	}
	return func(r *replica) seen { return see(r.limiter.Peek(ctx, key)) }
}

// giveBack draws a result or a reservation that is to be given back.
func (a *agreement) giveBack(what string) func(*replica) seen {
	first := a.replicas[0]
	if what == "cancel" {
		if len(first.reserved) == 0 {
			return nil
		}
		i := rapid.IntRange(0, len(first.reserved)-1).Draw(a.T, "reservation")
		return func(r *replica) seen { return r.after(a.ctx, a.key, r.reserved[i].Cancel(a.ctx)) }
	}
	if len(first.results) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(first.results)-1).Draw(a.T, "result")
	switch what {
	case "release":
		return func(r *replica) seen { return r.after(a.ctx, a.key, r.results[i].Release(a.ctx)) }
	case "hold":
		return func(r *replica) seen { return r.after(a.ctx, a.key, r.results[i].Hold(a.ctx)) }
	}
	var charged []core.Limit
	for _, l := range first.results[i].Limits() {
		charged = append(charged, l.Limit)
	}
	units := limitdraw.Units(charged).Draw(a.T, "actual")
	return func(r *replica) seen {
		res := r.results[i] // which is given back once
		r.results = slices.Delete(r.results, i, i+1)
		if what == "undo" {
			return r.after(a.ctx, a.key, res.Undo(a.ctx))
		}
		return r.after(a.ctx, a.key, res.Settle(a.ctx, units))
	}
}

// A definition that is replaced, and a reservation, may matter until after the
// last instant that a record can hold, the year 2255. Both stores then keep the
// same steps.
func TestStoresAgreeOnStepsThatEndAfterTheLastInstant(t *testing.T) {
	clock := limittest.ClockAt(time.Date(2071, time.January, 1, 0, 0, 0, 0, time.UTC))
	century := 36500 * 24 * time.Hour
	limit := core.Limit{Name: "a", Capacity: 58, RefillRate: 73, RefillInterval: century, Mode: core.Stepped}
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	var got []seen
	for _, store := range []core.Store{
		redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), longTimeout),
		core.NewMemoryStore(core.WithClock(clock.Now)),
	} {
		ctx := t.Context()
		before := limit
		before.Capacity = 1
		limittest.Use(t, limittest.Limiter(t, store, "api", before), "k", 1)
		clock.Move(century / 4)
		l := limittest.Limiter(t, store, "api", limit)
		limittest.Use(t, l, "k", 0)
		res, err := l.Reserve(ctx, "k", 58)
		if err != nil || !res.OK() || res.Delay() == 0 {
			t.Fatalf("premise: a reservation in the future: %v, %v", res, err)
		}
		got = append(got, see(l.Peek(ctx, "k")))
		clock.Move(-century / 4)
	}
	if got[0] != got[1] {
		t.Errorf("the stores differ:\n%+v\n%+v", got[0], got[1])
	}
}

// The deepest debt of a calendar limit may end within a token. What was paid of
// that token stays paid when the limit changes.
func TestStoresAgreeOnADeepestDebtThatIsPartlyPaid(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	clock := limittest.ClockAt(time.Date(2026, time.March, 1, 0, 0, 0, 0, berlin))
	paid := time.Date(2026, time.March, 1+4096, 0, 0, 0, 0, berlin) // a debt is at most what 4096 periods pay
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	for _, store := range []core.Store{
		redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), longTimeout),
		core.NewMemoryStore(core.WithClock(clock.Now)),
		limittest.NewDecidingStore(clock.Now),
	} {
		ctx, days := t.Context(), 4*24*time.Hour
		limit := core.Limit{Name: "a", Capacity: 3, RefillRate: 0.01, RefillInterval: 24 * time.Hour, Mode: core.Aligned, Location: berlin}
		before := limittest.Limiter(t, store, "api", limit)
		if err := before.Debit(ctx, "k", 2669); err != nil {
			t.Fatal(err)
		}
		clock.Move(days)
		for _, capacity := range []int64{3, 2} {
			limit.Capacity = capacity
			res, err := limittest.Limiter(t, store, "api", limit).AllowN(ctx, "k", 0)
			if got := clock.Now().Add(res.RetryAfter); err != nil || !got.Equal(paid) {
				t.Errorf("%T: paid at %v under a capacity of %d, %v; want %v", store, got, capacity, err, paid)
			}
		}
		clock.Move(-days)
	}
}

// changeLimits changes limits as a new deployment of a policy may.
func changeLimits(t *rapid.T, limits []core.Limit, limit *rapid.Generator[core.Limit]) []core.Limit {
	limits = slices.Clone(limits)
	i := rapid.IntRange(0, len(limits)-1).Draw(t, "limit")
	switch rapid.SampledFrom([]string{"replace", "capacity", "add", "remove", "swap"}).Draw(t, "change") {
	case "replace":
		name := limits[i].Name
		limits[i] = limit.Draw(t, "replacement").WithName(name)
	case "capacity":
		if l := limits[i].WithBurst(limitdraw.Capacity.Draw(t, "capacity")); limitdraw.Valid(l) {
			limits[i] = l
		}
	case "add":
		if len(limits) < 6 {
			limits = append(limits, limit.Draw(t, "addition"))
		}
	case "remove":
		if len(limits) > 1 {
			limits = append(limits[:i], limits[i+1:]...)
		}
	case "swap":
		limits[0], limits[i] = limits[i], limits[0]
	}
	return limits
}
