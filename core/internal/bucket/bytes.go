package bucket

import (
	"encoding/binary"
	"math"
)

// appendDouble appends n in the format '>d'.
func appendDouble(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(b, math.Float64bits(float64(n)))
}

func append7(state []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		var eight [8]byte
		binary.BigEndian.PutUint64(eight[:], uint64(n))
		state = append(state, eight[1:]...)
	}
	return state
}

// reader reads numbers from state. If state is too short, ok becomes false and
// all further numbers are 0.
type reader struct {
	state string
	ok    bool
}

func (r *reader) number(size int) (n int64) {
	if r.ok = r.ok && len(r.state) >= size; !r.ok {
		return 0
	}
	for i := range size {
		n = n<<8 | int64(r.state[i])
	}
	r.state = r.state[size:]
	return n
}
