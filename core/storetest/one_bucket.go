package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// oneBucketRules are for charges of one request that are taken from the same
// bucket.
var oneBucketRules = []storeRule{
	{"charges of one bucket are one charge of the sum", chargesAreOneSum},
	{"charges of one bucket under other limits are all taken or none", chargesUnderOtherLimits},
	{"a shadow policy charges the bucket of an enforced one and denies nothing", shadowOnTheSameBucket},
}

// allows checks that charges are allowed, and that the results tell so many
// tokens left.
func (s *subject) allows(left int64, charges ...core.Charge) core.JointResult {
	s.Helper()
	j, err := core.AllowTogether(s.Context(), charges...)
	s.no(err)
	if !j.Allowed || j.RetryAfter != 0 {
		s.Errorf("charges of one bucket: allowed %v, retry after %v; want allowed", j.Allowed, j.RetryAfter)
	}
	s.tell(j, left, charges)
	return j
}

// refuses checks that charges are denied, with a RetryAfter, and that the
// results tell so many tokens left.
func (s *subject) refuses(left int64, retry time.Duration, charges ...core.Charge) {
	s.Helper()
	j, err := core.AllowTogether(s.Context(), charges...)
	s.no(err)
	if j.Allowed || j.RetryAfter != retry {
		s.Errorf("charges of one bucket: allowed %v, retry after %v; want denied, retry after %v", j.Allowed, j.RetryAfter, retry)
	}
	s.tell(j, left, charges)
}

func (s *subject) tell(j core.JointResult, left int64, charges []core.Charge) {
	s.Helper()
	for i, res := range j.Results {
		if res.Remaining != left {
			s.Errorf("charge %d tells %d tokens left, want %d: each tells the bucket after all charges", i, res.Remaining, left)
		}
		if charges[i].Cost > 0 && res.Cost != charges[i].Cost {
			s.Errorf("charge %d has a cost of %d, want its own of %d", i, res.Cost, charges[i].Cost)
		}
	}
}

func chargesAreOneSum(s *subject) {
	l := s.limiter(core.PerMinute(10))
	one, two := core.Charge{Limiter: l, Key: key, Cost: 1}, core.Charge{Limiter: l, Key: key, Cost: 2}
	none := core.Charge{Limiter: l, Key: key, Units: core.Units{core.Requests: 0}}
	s.allows(7, one, two)
	s.holds(l, 7, "charges of 1 and 2")
	s.allows(6, none, one, none)
	s.refuses(6, core.Never, core.Charge{Limiter: l, Key: key, Cost: 6}, core.Charge{Limiter: l, Key: key, Cost: 5})
	s.refuses(6, core.Never, core.Charge{Limiter: l, Key: key, Cost: 1<<63 - 1}, core.Charge{Limiter: l, Key: key, Cost: 1<<63 - 1})
	four := core.Charge{Limiter: l, Key: key, Cost: 4}
	s.refuses(6, 12*time.Second, four, four)
	s.clock.move(12*time.Second - time.Microsecond)
	s.refuses(7, time.Microsecond, four, four)
	s.clock.move(time.Microsecond)
	j := s.allows(0, four, four)
	s.no(j.Results[0].Undo(s.Context()))
	s.holds(l, 4, "one charge of two is undone")
	s.no(l.Reset(s.Context(), key))
	s.no(s.allows(2, four, four).Undo(s.Context()))
	s.holds(l, 10, "both charges are undone")

	other := s.limiterOf("other", core.PerDay(1))
	s.grants(other, 1, 0, "another bucket")
	j, err := core.AllowTogether(s.Context(), four, core.Charge{Limiter: other, Key: key}, four)
	s.no(err)
	if j.Allowed {
		s.Error("a bucket without tokens denies")
	}
	s.holds(l, 10, "a denial by another bucket takes nothing of the sum")

	l = s.requestsAndTokens()
	s.no(l.Reset(s.Context(), key))
	j, err = core.AllowTogether(s.Context(), core.Charge{Limiter: l, Key: key, Units: core.Units{tokens: 100}}, core.Charge{Limiter: l, Key: key, Cost: 2},
		core.Charge{Limiter: l, Key: key, Units: core.Units{core.Requests: 0, tokens: 50}})
	s.no(err)
	s.have(l, "units of three charges", 7, 450)
	s.no(j.Settle(s.Context(), core.Units{tokens: 10}))
	s.have(l, "each charge is settled", 7, 570)
}

func chargesUnderOtherLimits(s *subject) {
	slow := s.limiter(core.PerMinute(10), core.PerDay(100).WithName("day"))
	fast, err := slow.WithLimits(core.PerMinute(10).WithName("api-1m"), core.Limit{Capacity: 50, RefillRate: 100, RefillInterval: time.Hour}.WithName("hour"))
	s.no(err)
	slow1, fast1 := core.Charge{Limiter: slow, Key: key, Cost: 3}, core.Charge{Limiter: fast, Key: key, Cost: 5}
	s.allows(2, slow1, fast1)
	s.holds(slow, 2, "charges of 3 and 5 under two lists of limits")
	s.refuses(2, 36*time.Second, slow1, fast1)
	s.refuses(2, 36*time.Second, fast1, slow1)
	s.refuses(2, core.Never, slow1, core.Charge{Limiter: fast, Key: key, Cost: 8})
	s.holds(slow, 2, "a denial takes nothing")
	s.clock.move(36*time.Second - time.Microsecond)
	if j, err := core.AllowTogether(s.Context(), slow1, fast1); err != nil || j.Allowed {
		s.Errorf("an instant before RetryAfter: allowed %v, %v", j.Allowed, err)
	}
	s.clock.move(time.Microsecond)
	s.no(s.allows(0, slow1, fast1).Undo(s.Context()))
	s.holds(slow, 8, "both charges are undone")
}

func shadowOnTheSameBucket(s *subject) {
	enforced := s.limiter(core.PerMinute(10))
	trial, err := core.NewLimiter(s.store, core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(10)}, Shadow: true}) // the same limits, for which nothing is logged
	s.no(err)
	both := []core.Charge{{Limiter: trial, Key: key, Cost: 4}, {Limiter: enforced, Key: key, Cost: 5}}
	s.allows(1, both...)
	both[1].Cost = 1
	j := s.allows(0, both...)
	if !j.Results[0].ShadowDenied || j.Results[1].ShadowDenied {
		s.Error("the trial is denied by what the enforced policy left, and denies nothing")
	}
	s.holds(enforced, 0, "a trial that is denied takes nothing")
	s.refuses(0, 6*time.Second, both...)
	s.no(enforced.Reset(s.Context(), key))
	s.no(s.allows(5, both...).Undo(s.Context()))
	s.holds(enforced, 10, "both charges are undone")
}
