package main

import (
	"math"
	"slices"
)

// foretell reports whether later is what follows from s if nobody sends a request: then pages need not be told.
func (s *states) foretell(later states) bool {
	return s.More == later.More && s.Store == later.Store &&
		slices.EqualFunc(s.List, later.List, bucketState.foretells) &&
		slices.EqualFunc(s.Modes, later.Modes, bucketState.foretells)
}

func (b bucketState) foretells(later bucketState) bool {
	return b.Key == later.Key && b.User == later.User && b.Replica == later.Replica && b.Policy == later.Policy && b.Alone == later.Alone &&
		slices.EqualFunc(b.Limits, later.Limits, func(x, y limitState) bool {
			return x.Name == y.Name && x.Unit == y.Unit && x.Mode == y.Mode && x.Capacity == y.Capacity && x.Rate == y.Rate &&
				x.Interval == y.Interval && near(x, later.At-b.At, y.Tokens)
		})
}

// clocks is how much the clocks that take part may differ, in ms.
const clocks = 30

// near reports whether tokens are what a level comes to after some ms. It may be a moment early or late.
func near(l limitState, after, tokens float64) bool {
	least, most := l.after(after-clocks), l.after(after+clocks)
	return tokens >= least-0.01 && tokens <= most+0.01
}

// after is the level after some ms in which nobody takes tokens.
func (s limitState) after(ms float64) float64 {
	gained := 0.0
	switch {
	case ms <= 0, s.Next == 0:
	case s.Mode == "continuous":
		gained = s.Rate * ms / s.Interval
	case ms >= s.Next:
		gained = s.Rate * (1 + math.Floor((ms-s.Next)/s.Interval))
	}
	return min(float64(s.Capacity), s.Tokens+gained)
}
