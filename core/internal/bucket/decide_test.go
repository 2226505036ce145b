package bucket

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tokens is a limit that gains 2 tokens, of one unit each, every step.
func tokens(tag uint32, capacity, step int64) Rate {
	return Rate{Tag: tag, Unit: 1, Capacity: capacity, Full: capacity, Gain: 2, Step: step}
}

func slots(tag uint32, capacity, hold int64) Rate {
	return Rate{Tag: tag, Unit: 1, Capacity: capacity, Full: capacity, Step: 1, Slots: true, Hold: hold}
}

func estimates(tag uint32, capacity, step, hold int64) Rate {
	r := tokens(tag, capacity, step)
	r.Hold = hold
	return r
}

func used(tag uint32, used, at int64) Record {
	return Record{Tag: tag, Unit: 1, Capacity: 10, Used: used, At: at}
}

// play is a bucket, and a request on it at 1,000.
type play struct {
	rule    string
	rates   []Rate
	before  Bucket
	request Request
	granted int64
	left    []Left
	after   []Record // nil: nothing is stored
	holds   []Hold
}

func (p play) check(t *testing.T) {
	t.Helper()
	var a Answer
	b := Bucket{Records: slices.Clone(p.before.Records), Holds: slices.Clone(p.before.Holds)}
	r := p.request
	r.Set = NewLimitSet(p.rates)
	changed := Decide(1000, &b, &r, &a)
	assert.Equal(t, p.granted, a.Granted, p.rule)
	for i, want := range p.left {
		assert.Equal(t, want, *a.Levels.At(i), "%s: limit %d", p.rule, i)
	}
	if assert.Equal(t, p.after != nil, changed, "%s: stored", p.rule); changed {
		assert.Equal(t, p.after, b.Records, p.rule)
		assert.ElementsMatch(t, p.holds, b.Holds, p.rule)
	}
}

func each(n ...int64) *[]int64 { return &n }

func TestTakeIsOfAllLimitsOrOfNone(t *testing.T) {
	two := []Rate{tokens(1, 10, 100), tokens(2, 20, 50)}
	six := Bucket{Records: []Record{used(1, 4, 1000)}}
	for _, p := range []play{
		{"a new key is full", two, Bucket{}, Request{N: 3}, 1,
			[]Left{{7, 0, 200}, {17, 0, 100}}, []Record{{Tag: 1, Unit: 1, Capacity: 10, Used: 3, At: 1000}, {Tag: 2, Unit: 1, Capacity: 20, Used: 3, At: 1000}}, nil},
		{"a limit that lacks tokens denies", two, six, Request{N: 9}, 0, []Left{{6, 200, 200}, {20, 0, 0}}, nil, nil},
		{"more than a capacity never passes", two, six, Request{N: 11}, 0, []Left{{6, Forever, 200}, {20, 0, 0}}, nil, nil},
		{"nothing is a look", two, six, Request{N: 0}, 1, []Left{{6, 0, 200}, {20, 0, 0}}, nil, nil},
		{"of each limit its own", two, six, Request{Each: each(0, 18)}, 1,
			[]Left{{6, 0, 200}, {2, 0, 450}}, []Record{used(1, 4, 1000), {Tag: 2, Unit: 1, Capacity: 20, Used: 18, At: 1000}}, nil},
		{"as often as all limits have", two, six, Request{N: 4, Times: 3}, 1,
			[]Left{{2, 0, 400}, {16, 0, 100}}, []Record{used(1, 8, 1000), {Tag: 2, Unit: 1, Capacity: 20, Used: 4, At: 1000}}, nil},
		{"three times", two[:1], Bucket{}, Request{N: 3, Times: 5}, 3, []Left{{1, 0, 500}}, []Record{used(1, 9, 1000)}, nil},
		{"a dry run takes nothing", two[:1], six, Request{N: 3, Dry: true}, 0, []Left{{6, 0, 200}}, nil, nil},
		{"records of other limits stay", two[:1], Bucket{Records: []Record{used(7, 1, 5), used(1, 4, 1000)}}, Request{N: 1}, 1,
			nil, []Record{used(1, 5, 1000), used(7, 1, 5)}, nil},
		{"a clock that was set back is stored", two[:1], Bucket{Records: []Record{used(1, 4, 1500)}}, Request{N: 9}, 0,
			[]Left{{6, 200, 200}}, []Record{used(1, 4, 1000)}, nil},
	} {
		p.check(t)
	}
}

func TestChargeAsksNobody(t *testing.T) {
	one, six := []Rate{tokens(1, 10, 100)}, Bucket{Records: []Record{used(1, 4, 1000)}}
	for _, p := range []play{
		{"a debt", one, six, Request{Action: Charge, N: 9}, 1, []Left{{-3, 200, 700}}, []Record{used(1, 13, 1000)}, nil},
		{"the deepest one", one, six, Request{Action: Charge, N: 1 << 60}, 1, nil, []Record{used(1, MaxUsed, 1000)}, nil},
		{"what is given back", one, six, Request{Action: Charge, N: -3}, 1, []Left{{9, 0, 100}}, []Record{used(1, 1, 1000)}, nil},
		{"no more than fills it", one, six, Request{Action: Charge, N: -1 << 60}, 1, []Left{{10, 0, 0}}, []Record{used(1, 0, 1000)}, nil},
		{"then the cut is paid", one, Bucket{Records: []Record{{Tag: 1, Unit: 1, Capacity: 10, Used: 4, Cut: 9, At: 1000}}}, Request{Action: Charge, N: -6}, 1,
			[]Left{{10, 0, 400}}, []Record{{Tag: 1, Unit: 1, Capacity: 10, Cut: 7, At: 1000}}, nil},
		{"a full bucket needs nothing back", one, Bucket{}, Request{Action: Charge, N: -3}, 1, []Left{{10, 0, 0}}, nil, nil},
	} {
		p.check(t)
	}
}

func TestHoldsComeBackOnce(t *testing.T) {
	hold := func(tag uint32, end int64, ticket uint64, n int64) Hold {
		return Hold{End: end, Ticket: ticket, Tag: tag, Tokens: n}
	}
	held := func(tag uint32, n, held int64) Record {
		return Record{Tag: tag, Unit: 1, Capacity: 10, Used: n, Held: held, At: 1000}
	}
	both := []Rate{slots(1, 10, 500), estimates(2, 10, 100, 300)}
	busy := Bucket{
		Records: []Record{held(1, 0, 7), held(2, 2, 6)},
		Holds:   []Hold{hold(2, 1100, 3, 2), hold(2, 1250, 4, 4), hold(1, 1400, 4, 4), hold(1, 1450, 3, 3)},
	}
	for _, p := range []play{
		{"each limit holds for its own time", both, Bucket{}, Request{N: 4, Ticket: 9}, 1, []Left{{6, 0, 500}, {6, 0, 500}},
			[]Record{held(1, 0, 4), held(2, 0, 4)}, []Hold{hold(2, 1300, 9, 4), hold(1, 1500, 9, 4)}},
		{"a denial holds nothing, and waits until enough has ended", both, busy, Request{N: 5, Ticket: 9}, 0,
			[]Left{{3, 400, 450}, {2, 100, 450}}, nil, nil},
		{"or has refilled", both, busy, Request{Each: each(0, 3), Ticket: 9}, 0, []Left{{3, 0, 450}, {2, 100, 450}}, nil, nil},
		{"what ends with a request comes back", both, busy, Request{Action: Charge, Each: each(0, 1), Ticket: 4, Ends: each(4, 4)}, 1,
			[]Left{{7, 0, 450}, {5, 0, 450}}, []Record{held(1, 0, 3), held(2, 3, 2)}, []Hold{hold(2, 1100, 3, 2), hold(1, 1450, 3, 3)}},
		{"a hold of another number is another", both, busy, Request{Action: Charge, Each: each(0, 0), Ticket: 4, Ends: each(3, 0)}, 1, nil, nil, nil},
		{"one more time", both, busy, Request{Action: Extend, Each: each(4, 0), Ticket: 4, Ends: each(4, 0)}, 1, []Left{{3, 0, 500}, {2, 0, 500}},
			[]Record{held(1, 0, 7), held(2, 2, 6)}, []Hold{hold(2, 1100, 3, 2), hold(2, 1250, 4, 4), hold(1, 1500, 4, 4), hold(1, 1450, 3, 3)}},
		{"one that has ended is taken again", both, busy, Request{Action: Extend, Each: each(3, 0), Ticket: 5, Ends: each(3, 0)}, 1, []Left{{0, 400, 500}, {2, 0, 500}},
			[]Record{held(1, 0, 10), held(2, 2, 6)}, []Hold{hold(2, 1100, 3, 2), hold(2, 1250, 4, 4), hold(1, 1400, 4, 4), hold(1, 1450, 3, 3), hold(1, 1500, 5, 3)}},
		{"if it is free", both, busy, Request{Action: Extend, Each: each(4, 0), Ticket: 5, Ends: each(4, 0)}, 0, nil, nil, nil},
		{"what is over has ended, whatever is asked", both[:1], Bucket{Records: []Record{held(1, 0, 9)}, Holds: []Hold{hold(1, 999, 3, 4), hold(1, 1000, 4, 4), hold(1, 1001, 5, 1)}},
			Request{N: 10}, 0, []Left{{9, 1, 1}}, []Record{held(1, 0, 1)}, []Hold{hold(1, 1001, 5, 1)}},
		{"of a limit that holds nothing any more nothing is held", []Rate{both[0], tokens(2, 10, 100)}, busy, Request{Each: each(0, 8), Ticket: 9}, 1,
			[]Left{{3, 0, 450}, {0, 100, 500}}, []Record{held(1, 0, 7), held(2, 10, 6)}, busy.Holds},
		{"a smaller capacity grants nothing until enough is back", []Rate{slots(1, 5, 500)}, busy, Request{N: 1}, 0, []Left{{-2, 400, 450}}, nil, nil},
	} {
		p.check(t)
	}
	var a Answer
	r := Request{Set: NewLimitSet(both), Action: Charge, Each: each(0, 0), Ticket: 4, Ends: each(4, 4)}
	b := Bucket{Records: slices.Clone(busy.Records), Holds: slices.Clone(busy.Holds)}
	Decide(1000, &b, &r, &a)
	assert.False(t, Decide(1000, &b, &r, &a), "a second release changes nothing")

	b = Bucket{Records: slices.Clone(busy.Records), Holds: slices.Clone(busy.Holds)}
	Decide(1000, &b, &Request{Set: NewLimitSet([]Rate{tokens(2, 10, 1)}), N: 1}, &a)
	assert.EqualValues(t, 1450, b.Full, "not before the last hold, also if another definition does not count it")
}

// A key expires an eighth and 3 s later than it matters, so that most writes
// leave it.
func TestAKeyExpiresWhenNothingMattersAnyMore(t *testing.T) {
	set := NewLimitSet([]Rate{tokens(1, 10, 1000)})
	for _, c := range []struct {
		rule          string
		before        Bucket
		n             int64
		full, expires int64
	}{
		{"a new key", Bucket{}, 8, 5000, 1000 + 4500 + 3*second},
		{"late enough", Bucket{Expires: 5000, Records: []Record{used(1, 0, 1000)}}, 8, 5000, 5000},
		{"too early", Bucket{Expires: 4999, Records: []Record{used(1, 0, 1000)}}, 8, 5000, 1000 + 4500 + 3*second},
		{"another limit", Bucket{Expires: 9000, Records: []Record{used(7, 1, 1000)}}, 8, 9000, 1000 + 4500 + 3*second},
	} {
		require.True(t, Decide(1000, &c.before, &Request{Set: set, N: c.n}, new(Answer)))
		assert.Equal(t, []int64{c.full, c.expires}, []int64{c.before.Full, c.before.Expires}, c.rule)
	}
}

func TestUndoGivesBackWhatARequestTook(t *testing.T) {
	for name, r := range map[string]Request{
		"tokens": {N: 2}, "several times": {N: 1, Times: 3}, "of each": {Each: each(1, 2, 3)}, "reserved": {Action: Reserve, N: 2, When: second},
	} {
		rates := []Rate{tokens(1, 10, 100), estimates(2, 10, 100, 500), slots(3, 10, 500)}
		if r.Action == Reserve {
			rates = rates[:1]
		}
		r.Set, r.Ticket = NewLimitSet(rates), 9
		b, a, undone := Bucket{}, Answer{}, Answer{}
		require.True(t, Decide(1000, &b, &r, &a), name)
		undo, ending := r.Undo(&a), r.Ending()
		before := b
		before.Records, before.Holds = slices.Clone(b.Records), slices.Clone(b.Holds)
		require.True(t, Decide(1000, &b, &undo, &undone), name)
		for i, rate := range rates {
			assert.Equal(t, rate.Full, undone.Levels.At(i).Units, "%s: limit %d", name, i)
		}
		assert.Empty(t, b.Holds, name)
		if r.Set.Holds && r.Times == 0 { // how often it was granted is not known without an answer
			Decide(1000, &before, &ending, &undone)
			assert.Empty(t, before.Holds, name)
			assert.Equal(t, a.Levels.At(0).Units, undone.Levels.At(0).Units, "%s: the end of holds gives back nothing else", name)
		}
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	set := NewLimitSet([]Rate{tokens(1, 10, 1), tokens(2, 10, 1), tokens(3, 10, 1), tokens(4, 10, 1)})
	b, a, now := Bucket{}, Answer{}, int64(1000)
	for name, r := range map[string]Request{
		"take": {Set: set, N: 1}, "denied": {Set: set, N: 11}, "charge": {Set: set, Action: Charge, N: -1}, "reserve": {Set: set, Action: Reserve, N: 10, When: second},
	} {
		Decide(now, &b, &r, &a) // makes the records
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			now++
			Decide(now, &b, &r, &a)
		}), name)
	}
}
