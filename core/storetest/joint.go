package storetest

import (
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Of a joint decision all keys give, or none does.

// needsJoint skips the rule for a store that is no [store.JointStore]: limiters
// then ask for its keys one after another.
func (s *subject) needsJoint() {
	if _, joint := s.store.(store.JointStore); !joint {
		s.Skip("the store is no store.JointStore")
	}
}

// together decides charges, of which all must be allowed or none.
func (s *subject) together(allowed bool, when string, charges ...core.Charge) *core.Result {
	s.Helper()
	res, err := core.AllowTogether(s.Context(), charges...)
	if s.no(err); res.Allowed != allowed {
		s.broken("%s: allowed %v, want %v", when, res.Allowed, allowed)
	}
	return &res
}

func jointlyAllOrNothing(s *subject) {
	s.needsJoint()
	user := s.limiterOf("user", core.PerDay(3))
	everyone := s.limiterOf("everyone", core.PerDay(10).WithName("day"), atOnce(10))
	charges := []core.Charge{{Limiter: user, Key: key}, {Limiter: everyone, Key: key, Cost: 2}}
	var last *core.Result
	for n := range int64(3) {
		last = s.together(true, "both have the tokens", charges...)
		s.resultLeft(&last.Parts[0], "the user's answer", 2-n)
		s.resultLeft(&last.Parts[1], "everyone's answer", 8-2*n, 8-2*n)
	}
	for range 2 {
		res := s.together(false, "the user has none", charges...)
		if res.Parts[0].Allowed || !res.Parts[1].Allowed {
			s.broken("the user has no tokens: allowed %v; everyone has: allowed %v",
				res.Parts[0].Allowed, res.Parts[1].Allowed)
		}
		s.no(res.Release(s.Context()))
		s.left(everyone, "after a denial by the user's limit", 4, 4)
	}
	s.no(last.Release(s.Context()))
	s.left(everyone, "after a release", 4, 6)
	s.no(user.Reset(s.Context(), key))
	charges[1].Cost = 5
	s.together(false, "everyone has 4 of 5", charges...)
	s.left(user, "after a denial by everyone's limit", 3)
}
