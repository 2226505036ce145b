package keyparts

import (
	"slices"

	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

// longest is the longest value that people misspell.
const longest = 64

// telling are the values that tell keys apart: those that say who sends
// requests, or all if none does.
func (p *Parts) telling() []Value {
	list := slices.DeleteFunc(slices.Clone(p.Values), func(v Value) bool { return !v.Client })
	if len(list) == 0 {
		return p.Values
	}
	return list
}

// Within reports whether other has all values that tell p apart, whatever their
// kinds and the names of their fields.
func (p *Parts) Within(other *Parts) bool {
	list := p.telling()
	for _, v := range list {
		if !slices.ContainsFunc(other.telling(), func(o Value) bool { return o.encoded == v.encoded || inNetwork(v.Text, o) }) {
			return false
		}
	}
	return len(list) > 0
}

// Distance returns how many mistakes in typing make p of other, in the values
// that tell keys apart. Kinds and names of fields don't count. It reports false
// if a value has more mistakes than a third of its letters.
func (p *Parts) Distance(other *Parts) (mistakes int, near bool) {
	for _, v := range p.telling() {
		most, least := max(1, len(v.Text)/3), len(v.Text)
		for _, o := range other.telling() {
			if d := len(v.Text) - len(o.Text); len(v.Text) <= longest && max(d, -d) <= most {
				least = min(least, spelling.Distance(v.Text, o.Text))
			}
		}
		if least > most || least == len(v.Text) {
			return 0, false
		}
		mistakes, near = mistakes+least, true
	}
	return mistakes, near
}
