package core

import "slices"

// inlineLevels is how many limits an Answer holds without an allocation: a policy rarely has more.
const inlineLevels = 4

// levels is a list of levels that needs no allocation while it is short.
type levels struct {
	few  [inlineLevels]level
	many *[]level // the others; a pointer, for levels are copied with every Result
}

// grow makes room for n levels.
func (l *levels) grow(n int) {
	if n > inlineLevels {
		many := make([]level, n-inlineLevels)
		l.many = &many
	}
}

func (l *levels) at(i int) *level {
	if i < inlineLevels {
		return &l.few[i]
	}
	return &(*l.many)[i-inlineLevels]
}

// clone shares nothing with l.
func (l levels) clone() levels {
	if l.many != nil {
		many := slices.Clone(*l.many)
		l.many = &many
	}
	return l
}

// add puts tokens on top of the levels of p's limits.
func (l *levels) add(p *plan, tokens int64) {
	for i := range p.rates {
		rate := &p.rates[i]
		l.at(i).units = min(l.at(i).units+rate.units(tokens), max(l.at(i).units, rate.full))
	}
}
