package storetest

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// jointRules are for a store.JointStore.
var jointRules = []storeRule{
	{"of buckets that are charged together all give or none", jointlyAllOrNothing},
	{"concurrent charges of several buckets take what is allowed", jointlyExact},
}

// needsJoint skips the rule for a store that is no store.JointStore: limiters
// then charge its buckets one after another.
func (s *subject) needsJoint() {
	if _, joint := s.store.(store.JointStore); !joint {
		s.Skip("the store is no store.JointStore")
	}
}

func jointlyAllOrNothing(s *subject) {
	s.needsJoint()
	user, everyone := s.limiterOf("user", core.PerDay(3)), s.limiterOf("everyone", core.PerDay(10), core.PerDay(900).WithName("t").WithUnit(tokens))
	for n := range 5 {
		j, err := core.AllowTogether(s.Context(), core.Charge{Limiter: everyone, Key: "all", Units: core.Units{tokens: 100}}, core.Charge{Limiter: user, Key: key})
		s.no(err)
		if j.Allowed != (n < 3) {
			s.Errorf("request %d: allowed %v; want 3 requests allowed", n+1, j.Allowed)
		}
		if !j.Allowed && (!j.Parts[0].Allowed || j.Parts[1].Allowed) {
			s.Errorf("request %d: everyone has tokens (allowed %v), the user has none (allowed %v)", n+1, j.Parts[0].Allowed, j.Parts[1].Allowed)
		}
	}
	res, err := everyone.Peek(s.Context(), "all")
	s.no(err)
	if limits := res.Limits(); limits[0].Remaining != 7 || limits[1].Remaining != 600 {
		s.Errorf("3 of 10 requests and 300 of 900 tokens are taken, but %d and %d are left", limits[0].Remaining, limits[1].Remaining)
	}
	s.no(user.Reset(s.Context(), key))
	if j, err := core.AllowTogether(s.Context(), core.Charge{Limiter: everyone, Key: "all", Cost: 8}, core.Charge{Limiter: user, Key: key}); err != nil || j.Allowed {
		s.Errorf("8 requests of 7: allowed %v, %v", j.Allowed, err)
	}
	s.holds(user, 3, "a denial by another bucket takes nothing from this one")
}

func jointlyExact(s *subject) {
	s.needsJoint()
	all := s.limiterOf("all", core.PerDay(500))
	each := s.limiterOf("each", core.PerDay(70))
	var granted [10]atomic.Int64
	together(func(n int) {
		for i := range 20 {
			k := (n + i) % len(granted)
			j, err := core.AllowTogether(s.Context(), core.Charge{Limiter: all, Key: key}, core.Charge{Limiter: each, Key: strconv.Itoa(k)})
			if err != nil {
				s.Errorf("AllowTogether: %v", err)
				return
			}
			if j.Allowed {
				granted[k].Add(1)
			}
		}
	})
	total := int64(0)
	for k := range granted {
		got := granted[k].Load()
		total += got
		res, err := each.Peek(s.Context(), strconv.Itoa(k))
		s.no(err)
		if res.Remaining != 70-got {
			s.Errorf("bucket %d gave %d of 70 tokens and has %d left", k, got, res.Remaining)
		}
	}
	if total != 500 {
		s.Errorf("64 goroutines got %d of 500 tokens", total)
	}
	s.holds(all, 0, "all tokens are given")
}

// crowd uses a key under so many limits that a store can't use it any more.
func (s *subject) crowd(policy, key string) {
	s.Helper()
	l := s.limiterOf(policy, core.PerDay(2))
	for n := range 1000 {
		l, err := l.WithLimits(core.PerDay(5).WithName(strconv.Itoa(n)))
		s.no(err)
		_, err = l.Allow(s.Context(), key)
		if bad := (*store.StateError)(nil); errors.As(err, &bad) {
			return
		}
		s.no(err)
	}
	s.Fatal("a key under 1,000 limits must be a StateError")
}
