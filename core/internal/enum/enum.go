// Package enum keeps what the values of an enumeration are called in one table:
// in Go, in text and in messages. It is a package because core has enumerations
// and imports packages with others.
package enum

import (
	"slices"
	"strconv"
	"strings"
)

// Names are the names of the values 0, 1, 2 and so on of a type, or of its
// bits.
type Names struct {
	Type   string   // the type's name in Go, such as FailureMode
	Prefix string   // of its constants, such as Fail
	Of     []string // their names behind the prefix; in lower case they are the names in text
}

// Valid reports whether v has a name.
func (n *Names) Valid(v int) bool { return v >= 0 && v < len(n.Of) }

func (n *Names) Go(v int) string {
	if !n.Valid(v) {
		return n.Type + "(" + strconv.Itoa(v) + ")"
	}
	return n.Prefix + n.Of[v]
}

// Bits returns the constants of which bits are the sum.
func (n *Names) Bits(bits int) string {
	var names []string
	for i := range n.Of {
		if bits&(1<<i) != 0 {
			names = append(names, n.Go(i))
		}
	}
	if rest := bits &^ (1<<len(n.Of) - 1); rest != 0 || len(names) == 0 {
		names = append(names, n.Go(-1)[:len(n.Type)+1]+strconv.Itoa(rest)+")")
	}
	return strings.Join(names, "|")
}

// Text returns the name of v in text. v must be valid.
func (n *Names) Text(v int) string { return strings.ToLower(n.Of[v]) }

// Texts returns all names in text, in the order of the values.
func (n *Names) Texts() []string {
	texts := make([]string, len(n.Of))
	for v := range n.Of {
		texts[v] = n.Text(v)
	}
	return texts
}

// Value returns the value of a name in text, or -1 if there is no such name.
func (n *Names) Value(text string) int { return slices.Index(n.Texts(), text) }

// Want is the reason for a value without a name.
func (n *Names) Want() string {
	constants := make([]string, len(n.Of))
	for v := range n.Of {
		constants[v] = n.Go(v)
	}
	return "must be " + OneOf(constants)
}

// OneOf lists words, of which one is meant: a, b or c.
func OneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
