package bucket

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stored is a bucket with everything that can be stored.
func stored() Bucket {
	return Bucket{
		Expires: Latest,
		Records: []Record{
			{Tag: 1, Unit: 1 << 18, Capacity: 7, Used: MaxUsed, At: Latest - 1, Cut: 3, Held: 5},
			{Tag: math.MaxUint32, Unit: 1, Capacity: 1, At: 1},
		},
		Holds: []Hold{{End: 5, Ticket: math.MaxUint64, Tag: 1, Tokens: 2}, {End: Latest, Ticket: 1, Tag: 1, Tokens: 3}},
	}
}

func TestParseReadsWhatAppendHasWritten(t *testing.T) {
	for name, b := range map[string]Bucket{"empty": {}, "records": {Expires: 9, Records: stored().Records}, "holds": stored()} {
		parsed := Bucket{Records: stored().Records, Holds: stored().Holds} // of an earlier use
		require.NoError(t, parsed.Parse(b.Append(nil)), name)
		assert.Equal(t, b.Expires, parsed.Expires, name)
		assert.ElementsMatch(t, b.Records, parsed.Records, name)
		assert.Equal(t, b.Holds, parsed.Holds, name)
	}
	b := stored()
	require.NoError(t, b.Parse(nil))
	assert.Equal(t, Bucket{Records: b.Records}, b, "nothing stored is a full bucket")
	assert.Empty(t, b.Records)
	_, err := ParseMember([]byte("x"))
	require.ErrorIs(t, err, ErrNoBucket)
}

// State comes from a server that others can write to.
func FuzzParse(f *testing.F) {
	whole := stored()
	state := whole.Append(nil)
	for _, seed := range [][]byte{nil, {0}, {0, 0, 0, 0}, {255, 255, 255, 255}, state, state[:len(state)-1], state[4:], bytes.Repeat([]byte{255}, len(state)), make([]byte, len(state))} {
		f.Add(seed)
	}
	calendar := tokens(4, 10, 100)
	calendar.Steps = OnCalendar
	f.Fuzz(func(t *testing.T, state []byte) {
		var b Bucket
		if err := b.Parse(state); err != nil {
			if !errors.Is(err, ErrNoBucket) {
				t.Fatal(err)
			}
			return
		}
		if next := b.Append(nil); !bytes.HasPrefix(next, state) { // without records, when they expire may be missing
			t.Fatalf("%x is read as %x", state, next)
		}
		tag := uint32(1)
		if len(b.Records) > 0 {
			tag = b.Records[0].Tag
		}
		for _, rate := range []Rate{tokens(tag, 10, 1), slots(tag, 10, 100), estimates(tag, 10, 7, 100), calendar} {
			rate.Tag = tag
			for action := Take; action <= Extend; action++ {
				Decide(Latest/2, &b, &Request{Set: NewLimitSet([]Rate{rate}), Action: action, N: 3, When: 50, Ends: each(3), Starts: [][]int64{{1, Latest / 2, Latest}}}, new(Answer))
			}
		}
	})
}

// A step of 1 ms would be exact, but would fill the bucket twice over.
func TestAStepGainsNoMoreThanABucketHolds(t *testing.T) {
	r := NewRate(Spec{Capacity: 98, RefillRate: 1.0 / 3, RefillInterval: time.Microsecond}, 1)
	rate := float64(r.Gain) / float64(r.Unit) / float64(r.Step)
	assert.InEpsilon(t, 1.0/3, rate, 1e-6, "tokens a microsecond")
}
