package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// modes are the refill modes, by the limits of rules on each.
var modes = map[string]core.Limit{
	"core.Continuous": {Capacity: 17, RefillRate: 17, RefillInterval: 30 * time.Second},
	"core.Stepped":    {Capacity: 17, RefillRate: 3, RefillInterval: 7 * time.Second, Mode: core.Stepped},
	"core.Aligned":    {Capacity: 17, RefillRate: 3, RefillInterval: 7 * time.Second, Mode: core.Aligned},
	"a calendar's":    core.PerMonth(17),
}

// A window of d admits at most MaxIn(d).
func windowsAdmitMaxIn(s *subject) {
	random := rand.New(rand.NewPCG(1, 2))
	for mode, limit := range modes {
		l := s.limiterOf(mode, limit)
		type grant struct {
			at time.Time
			n  int64
		}
		var grants []grant
		for range 25 {
			s.clock.move(time.Duration(random.Int64N(int64(limit.RefillInterval) / 2)))
			if res, err := l.AllowAtMost(s.Context(), key, 1+random.Int64N(limit.Capacity)); err != nil {
				s.no(err)
			} else if res.Allowed {
				grants = append(grants, grant{s.clock.Now(), res.Cost})
			}
		}
		for i, first := range grants {
			sum := int64(0)
			for _, last := range grants[i:] {
				sum += last.n
				if d := last.at.Sub(first.at); sum > limit.MaxIn(d) {
					s.Fatalf("the store breaks the rule %q: %s limit: %d tokens in %v, want at most %d",
						s.rule, mode, sum, d, limit.MaxIn(d))
				}
			}
		}
	}
}
