package core

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
