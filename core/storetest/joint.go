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
	user, everyone := s.limiterOf("user", core.PerDay(3)),
		s.limiterOf("everyone", core.PerDay(10).WithName("day"), core.PerDay(900).WithName("tokens").WithUnit(tokens))
	charges := []core.Charge{
		{Limiter: user, Key: key}, {Limiter: everyone, Key: "all", Units: core.Units{tokens: 100}},
	}
	all := func(when string, want ...int64) {
		s.Helper()
		res, err := everyone.Peek(s.Context(), "all")
		s.no(err)
		s.resultLeft(&res, when, want...)
	}
	for n := range int64(3) {
		res := s.together(true, "both have the tokens", charges...)
		s.resultLeft(&res.Parts[0], "the user's answer", 2-n)
		s.resultLeft(&res.Parts[1], "everyone's answer", 9-n, 800-100*n)
	}
	for range 2 {
		res := s.together(false, "the user has none", charges...)
		if res.Parts[0].Allowed || !res.Parts[1].Allowed {
			s.broken("the user has no tokens: allowed %v; everyone has: allowed %v", res.Parts[0].Allowed, res.Parts[1].Allowed)
		}
		all("after denials by the user's key", 7, 600)
	}
	s.no(user.Reset(s.Context(), key))
	charges[1].Cost, charges[1].Units = 8, nil
	s.together(false, "everyone has 7 of 8", charges...)
	s.left(user, "after a denial by everyone's key", 3)
}

func slotsJointly(s *subject) {
	s.needsJoint()
	all, each := s.limiterOf("all", atOnce(3), core.PerDay(100).WithName("day")), s.limiterOf("each", atOnce(1))
	ann := []core.Charge{{Limiter: all, Key: key}, {Limiter: each, Key: "ann"}}
	bob := []core.Charge{{Limiter: all, Key: key}, {Limiter: each, Key: "bob"}}
	first := s.together(true, "a new key", ann...)
	for range 4 {
		s.no(s.together(false, "ann has no slot left", ann...).Release(s.Context()))
	}
	s.left(all, "a denial by one key takes no slot of the other", 2, 99)
	s.together(true, "bob has a slot", bob...)
	s.no(first.Hold(s.Context()))
	s.no(first.Release(s.Context()))
	s.left(all, "a release gives back one slot of each key", 2, 98)
	s.together(true, "ann's slot was released", ann...)
}
