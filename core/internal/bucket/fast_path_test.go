package bucket

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawSpec draws a limit as people write it, in any mode.
var drawSpec = rapid.Custom(func(t *rapid.T) Spec {
	return Spec{
		Capacity:       rapid.Int64Range(1, 50).Draw(t, "capacity"),
		RefillRate:     float64(rapid.Int64Range(1, 70).Draw(t, "rate")),
		RefillInterval: rapid.SampledFrom([]time.Duration{time.Second, 2 * time.Second, time.Minute, 7 * time.Millisecond}).Draw(t, "interval"),
		Mode:           Mode(rapid.IntRange(int(Continuous), int(Aligned)).Draw(t, "mode")),
		Other:          rapid.IntRange(0, 3).Draw(t, "other unit") == 0,
	}
})

// drawSet draws one to three limits of the names that tags 1 to 3 stand for.
func drawSet(t *rapid.T) *LimitSet {
	specs := rapid.SliceOfN(drawSpec, 1, 3).Draw(t, "limits")
	rates := make([]Rate, len(specs))
	for i, spec := range specs {
		rates[i] = NewRate(spec, uint32(i+1))
	}
	return NewLimitSet(rates)
}

// DecideFast is a shorter way to the same: whatever it decides, Decide decides
// alike, and stores the same records.
func TestFastPathDecidesAsDecideDoes(t *testing.T) {
	fast := 0
	rapid.Check(t, func(t *rapid.T) {
		one := drawSet(t)
		sets := []*LimitSet{one, one, one, one, drawSet(t)} // mostly the same, as in a service
		var records []Record
		now := rapid.Int64Range(1e15, 3e15).Draw(t, "start")
		for range rapid.IntRange(10, 30).Draw(t, "requests") {
			now += rapid.Int64Range(-10_000, 3_000_000).Draw(t, "move") / rapid.SampledFrom([]int64{1, 1, 1000}).Draw(t, "part")
			r := Request{Set: rapid.SampledFrom(sets).Draw(t, "set"), N: rapid.Int64Range(0, 60).Draw(t, "n")}
			if rapid.IntRange(0, 3).Draw(t, "units") == 0 {
				n := len(r.Set.Rates)
				each := rapid.SliceOfN(rapid.Int64Range(0, 60), n, n).Draw(t, "each")
				r.Each = &each
			}
			if rapid.IntRange(0, 9).Draw(t, "refund") == 0 {
				r.Action = Refund
			}
			var short, long Answer
			mine := slices.Clone(records)
			keep, write, ok := r.DecideFast(&short, mine, now)
			next, until, err := r.Decide(&long, slices.Clone(records), now)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				fast++
				long.Due = 0 // only reservations have it
				if !reflect.DeepEqual(short, long) {
					t.Fatalf("%+v on %+v at %d: DecideFast answers %+v, Decide %+v", r, records, now, short, long)
				}
				if write != (next != nil) || write && (keep != until || !slices.Equal(mine, next)) {
					t.Fatalf("%+v on %+v at %d: DecideFast stores %v until %d, Decide %v until %d", r, records, now, mine, keep, next, until)
				}
			}
			if next != nil {
				records = next
			}
		}
	})
	want := 100
	if testing.Short() { // rapid makes a fifth of the checks
		want = 20
	}
	if fast < want {
		t.Errorf("the premise: DecideFast decided %d requests, want many", fast)
	}
}
