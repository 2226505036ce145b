package bucket

import "encoding/binary"

// Sizes of holds as bytes, which follow the records of their limit, in formats
// of Lua's struct library:
//
//	'>I4I2I7I7I7I2I2I2I7'
//	                     0, which is no limit's tag; the stepping; 1 if a clock has moved the holds; how many holds are in front;
//	                     how many pages; when the first hold in a page ends, or 0
//	'>I7I7I7'            each hold in front: its end, ticket and tokens
//	'>I2I7I7I7I7I7'      each page: how many holds, their tokens, end and ticket of the last, due, deficit
//	'>I7I7I7'            each hold in the pages
//
// In Redis the holds of each page are a field of their own: see constants.lua.
const (
	HoldsSize = 40
	HoldSize  = 21
	PageHead  = 37 // of a page, without its holds
)

// untagged reports whether state begins with the tag 0, as holds do behind a
// record.
func untagged[B ~string | ~[]byte](state B) bool {
	return len(state) >= 4 && state[0] == 0 && state[1] == 0 && state[2] == 0 && state[3] == 0
}

func (h *Holds) orNil() *Holds {
	if h.count() == 0 {
		return nil
	}
	return h
}

func (h *Holds) appendTo(state []byte) []byte {
	if h == nil {
		return state
	}
	state = binary.BigEndian.AppendUint32(state, 0)
	state = binary.BigEndian.AppendUint16(state, h.stepping.stepsHash)
	state = append7(state, h.stepping.unit, h.stepping.gain, h.stepping.phase)
	moved := 0
	if h.moved {
		moved = 1
	}
	for _, n := range [...]int{moved, len(h.front), len(h.pages)} {
		state = binary.BigEndian.AppendUint16(state, uint16(n))
	}
	first := int64(0)
	if len(h.pages) > 0 {
		first = h.pages[0].holds[0].at
	}
	state = append7(state, first)
	for _, x := range h.front {
		state = append7(state, x.at, x.ticket, x.tokens)
	}
	for i := range h.pages {
		b := &h.pages[i]
		state = binary.BigEndian.AppendUint16(state, uint16(len(b.holds)))
		state = append7(state, b.tokens, b.last().at, b.last().ticket, b.due, b.deficit)
	}
	for _, x := range h.inPages() {
		state = append7(state, x.at, x.ticket, x.tokens)
	}
	return state
}

func (r *reader) hold() hold { return hold{r.number(7), r.number(7), r.number(7)} }

// parseHolds reads the holds at the beginning of state, and returns what
// follows them. ok is false if this package can't have written them.
func parseHolds[B ~string | ~[]byte](state B) (h *Holds, rest B, ok bool) {
	r := reader{string(state[4:]), true}
	h = &Holds{stepping: stepping{uint16(r.number(2)), r.number(7), r.number(7), r.number(7)}}
	h.moved = r.number(2) != 0
	front, pages, first := r.number(2), r.number(2), r.number(7)
	if front+pages == 0 {
		return nil, state, false
	}
	before := hold{}
	next := func() (x hold, valid bool) {
		x = r.hold()
		valid = r.ok && x.tokens >= 1 && x.tokens <= Forever && x.at >= before.at && x.at < Forever && x.ticket >= 1 && x.ticket < Forever
		before = x
		return x, valid
	}
	ahead, inside := 0.0, 0.0 // tokens in front and in pages, added as the script adds them: as doubles
	for ; front > 0; front-- {
		x, valid := next()
		if !valid {
			return nil, state, false
		}
		h.front = append(h.front, x)
		ahead += float64(x.tokens)
	}
	type head struct{ count, tokens, at, ticket, due, deficit int64 }
	var heads []head
	for ; pages > 0 && r.ok; pages-- {
		heads = append(heads, head{r.number(2), r.number(7), r.number(7), r.number(7), r.number(7), r.number(7)})
	}
	for _, is := range heads {
		b := page{due: is.due, deficit: is.deficit}
		for range is.count {
			x, valid := next()
			if !valid {
				return nil, state, false
			}
			b.holds, b.tokens = append(b.holds, x), b.tokens+x.tokens
		}
		if is.count < 1 || is.count > PageSize || b.tokens != is.tokens || b.last().at != is.at || b.last().ticket != is.ticket {
			return nil, state, false
		}
		h.pages = append(h.pages, b)
		inside += float64(is.tokens)
	}
	if ahead+inside > MaxHeld || len(h.pages) > 0 && h.pages[0].holds[0].at != first {
		return nil, state, false
	}
	return h, state[len(state)-len(r.state):], true
}
