package bucket

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// plainRefill is refillAround of holds in a list, which looks at each.
func plainRefill(r *Rate, holds []hold, l Level, written, now int64) (_ Level, rest []hold) {
	held := heldAt(holds, written)
	for rest = holds; len(rest) > 0 && rest[0].at < now; rest = rest[1:] {
		if rest[0].holdsAt(written) {
			l = r.refill(l, held, rest[0].at)
			held -= rest[0].tokens
		}
	}
	return r.refill(l, heldAt(rest, now), now), rest
}

// plainWait is waitAround of holds in a list, which looks at each.
func plainWait(r *Rate, holds []hold, l Level, need, now int64) int64 {
	if l.Units >= need {
		return 0
	}
	held := heldAt(holds, now)
	for _, h := range holds {
		if !h.holdsAt(now) {
			continue
		}
		if need <= r.room(held) && now+r.wait(l, need, held, now) <= h.at {
			break
		}
		l = r.refill(l, held, h.at)
		held -= h.tokens
	}
	return min(Forever, r.wait(l, need, held, now))
}

func drawRate(t *rapid.T) Rate {
	s := Spec{
		Capacity:       rapid.SampledFrom([]int64{1, 2, 7, 100, 5000, 1e9, 999_999_999_999_999}).Draw(t, "capacity"),
		RefillRate:     rapid.SampledFrom([]float64{0.1, 1, 3, 17, 1000}).Draw(t, "rate"),
		RefillInterval: rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, 24 * time.Hour}).Draw(t, "interval"),
		Mode:           Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
	}
	if s.Mode == Aligned && s.RefillInterval == 24*time.Hour && rapid.Bool().Draw(t, "calendar") {
		s.Location = time.FixedZone("far", 3600)
	}
	return NewRate(s, 1)
}

// TestPagesDoWhatTheirHoldsDo compares a bucket that passes over pages with one
// that looks at each hold, from any level.
func TestPagesDoWhatTheirHoldsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		const written = int64(17e14)
		count := rapid.SampledFrom([]int{1, 3, 70, 300}).Draw(t, "holds")
		longest := rapid.SampledFrom([]int64{1, 1000, 1e6, 1e8}).Draw(t, "apart")
		tokens := rapid.SampledFrom([]int64{1, 2, max(1, r.Capacity/100), r.Capacity}).Draw(t, "tokens")
		var list []hold
		at := written
		for i := range count {
			at += rapid.Int64Range(0, longest).Draw(t, "end")
			ticket := int64(1 + i*7919)
			if rapid.IntRange(0, 9).Draw(t, "lease") == 0 {
				ticket += FirstLease
			}
			list = append(list, hold{at, ticket, min(tokens, MaxHeld/int64(count))})
		}
		slices.SortStableFunc(list, hold.compare)
		l := Level{rapid.Int64Range(-min(r.maxDebt, MaxDebt), r.Full).Draw(t, "level"), written}
		now := written + rapid.Int64Range(0, (at-written)*5/4).Draw(t, "now")

		h := holdsOf(list, written)
		got := r.refillAround(h, l, written, now, nil)
		rest := r.prune(h, got, now)
		want, plain := plainRefill(&r, list, l, written, now)
		if got != want || rest.Held(now) != heldAt(plain, now) {
			t.Fatalf("%+v: pages refill to %v with %d held, their holds to %v with %d", r, got, rest.Held(now), want, heldAt(plain, now))
		}
		for _, need := range []int64{r.Unit, r.Full, rapid.Int64Range(1, r.Capacity).Draw(t, "need") * r.Unit} {
			if got, want := r.waitAround(rest, got, need, now), plainWait(&r, plain, got, need, now); got != want {
				t.Fatalf("%+v: with pages %d units are there after %d µs, with each hold after %d", r, need, got, want)
			}
		}
	})
}

// TestPagesStayTrue adds and removes holds in random order. What each page says
// of its holds must be what follows from them, and pages must not become many.
func TestPagesStayTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRate(t)
		const now = int64(17e14)
		h := &Holds{stepping: r.stepping(Level{At: now})}
		var list []hold
		for i := range rapid.SampledFrom([]int{10, 200, 400}).Draw(t, "operations") {
			if len(list) > 0 && rapid.IntRange(0, 9).Draw(t, "remove") < 4 {
				at := rapid.IntRange(0, len(list)-1).Draw(t, "which")
				if tokens := h.remove(&r, Ending{Ticket: list[at].ticket, At: list[at].at}); tokens != list[at].tokens {
					t.Fatalf("hold %+v gave %d tokens", list[at], tokens)
				}
				list = slices.Delete(list, at, at+1)
				continue
			}
			x := hold{now + rapid.Int64Range(1, 1e7).Draw(t, "end"), int64(1 + i), rapid.Int64Range(1, 5).Draw(t, "tokens")}
			list = append(list, x)
			h.add(&r, x, now)
		}
		slices.SortFunc(list, hold.compare)
		if all := h.inPages(); !slices.Equal(all, list) {
			t.Fatalf("pages have the holds %v, want %v", all, list)
		}
		for _, b := range h.pages {
			if want := r.pageOf(h.stepping, b.holds); b.tokens != want.tokens || b.deficit != want.deficit || b.due != want.due || len(b.holds) > PageSize {
				t.Fatalf("a page says %+v of its holds, want %+v", b, want)
			}
		}
		if most := 2 + len(list)*4/PageSize; len(h.pages) > most {
			t.Errorf("%d holds are in %d pages, want at most %d", len(list), len(h.pages), most)
		}
		var state []byte
		if state = h.orNil().appendTo(nil); state == nil {
			return
		}
		again, rest, ok := parseHolds(append(state, "more"...))
		if !ok || string(rest) != "more" || !slices.Equal(again.inPages(), list) || again.stepping != h.stepping {
			t.Fatalf("what was stored reads as %+v, %q, %v", again, rest, ok)
		}
	})
}
