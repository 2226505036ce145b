package storetest

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// faults are broken stores, by the rule that finds them.
var faults = map[string][]fault{
	"a granted request takes its cost once": {
		{name: "nothing is stored", keep: func(*store.Answer, []byte) bool { return false }},
		{name: "a call that is sent again is charged twice",
			instead: func(s *broken, r store.Request) (store.Answer, error) {
				_, _ = s.decide(r, s.clock())
				return s.decide(r, s.clock())
			}},
	},
	"a denied request takes nothing": {
		{name: "a denial is charged", request: func(_ *broken, r *store.Request) {
			if r.Action == bucket.Take && r.Moves() {
				r.Action = bucket.Charge
			}
		}},
	},
	"a request leaves its floor": {{name: "floors are ignored", request: func(_ *broken, r *store.Request) { r.Floors = nil }}},
	"a penalty is one debt, and not prolonged": {
		{name: "penalties are ignored", request: func(_ *broken, r *store.Request) { r.Shadow = true }},
		{name: "each denial is a debit", instead: func(s *broken, r store.Request) (store.Answer, error) {
			a, err := s.decide(r, s.clock())
			if err == nil && !a.Allowed && r.N == 1 {
				more := r
				more.Request = bucket.Request{Set: r.Set, Action: bucket.Charge, N: 1}
				_, err = s.decide(more, s.clock())
			}
			return a, err
		}},
	},
	"a peek takes nothing": {{name: "Dry is ignored", request: func(_ *broken, r *store.Request) { r.Dry = false }}},
	"every limit gives its cost, or none does": {
		{name: "each limit decides by itself", instead: func(s *broken, r store.Request) (a store.Answer, err error) {
			if r.Action != bucket.Take || !r.Moves() {
				return s.decide(r, s.clock())
			}
			for i := range r.Set.Rates {
				one, each := r, make([]int64, len(r.Set.Rates))
				each[i], one.Each = r.Of(i), &each
				if a, err = s.decide(one, s.clock()); !a.Allowed {
					break
				}
			}
			return a, err
		}},
		{name: "units are ignored", request: func(_ *broken, r *store.Request) { r.Each = nil }},
	},
	"as many tokens are taken as there are": {
		{name: "one is taken", request: func(_ *broken, r *store.Request) { r.Times = min(1, r.Times) }},
	},
	"twelve limits are kept, and answered apart": {
		{name: "answers share memory", instead: func(s *broken, r store.Request) (store.Answer, error) {
			a, _ := s.more["answer"].(*store.Answer)
			if a == nil {
				a = &store.Answer{}
				s.more["answer"] = a
			}
			var b bucket.Bucket
			address := s.address(r.Policy(), r.Key())
			err := b.Parse(s.states[address])
			if err == nil && bucket.Decide(s.clock().UnixMicro(), &b, &r.Request, a) {
				s.states[address] = b.Append(nil)
			}
			return *a, err
		}},
		{name: "four limits are kept", state: records(func(_ *store.Request, b *bucket.Bucket) {
			b.Records = b.Records[:min(4, len(b.Records))]
		})},
	},

	"no window admits more than MaxIn": {keeping(5 * time.Second)},
	"RetryAfter suffices, and nothing less does": {
		{name: "the clock shows seconds", now: func(_ *broken, now time.Time) time.Time {
			return now.Truncate(time.Second)
		}},
	},
	"a bucket is full after ResetAfter, not before": {
		keeping(45 * 24 * time.Hour),
		{name: "ResetAfter has milliseconds", answer: func(_ *store.Request, a *store.Answer) {
			a.Levels.At(0).Full /= 1000
		}},
	},
	"state is kept until its last limit is full": {
		{name: "a write keeps the key for its own limits",
			keeps: func(r *store.Request, a *store.Answer, _ time.Duration) time.Duration {
				ttl := int64(0)
				for i := range r.Set.Rates {
					ttl = max(ttl, a.ResetAfter(i))
				}
				return time.Duration(ttl) * time.Microsecond
			}},
	},

	"a clock set back gives, takes and stops nothing": {
		monotonic,
		{name: "denials are not stored", keep: func(a *store.Answer, next []byte) bool { return a.Allowed && next != nil }},
	},
	"a clock set back leaves slots their remaining time": {monotonic},
	"a period begins by the store's clock": {
		{name: "periods of the process's clock", request: func(_ *broken, r *store.Request) {
			r.Starts = r.Set.Starts(time.Now().UnixMicro())
		}},
	},
	"a clock out of range is only an error": {
		{name: "brought into the range", now: func(_ *broken, now time.Time) time.Time {
			return time.UnixMicro(max(0, min(now.UnixMicro(), 1<<52)))
		}},
	},

	"what was used stays used under another capacity": {
		{name: "the first definition for ever", request: first(func(_, _ *bucket.Rate) {})},
	},
	"a lower capacity makes no debt": {
		{name: "cut for good", state: records(func(_ *store.Request, b *bucket.Bucket) {
			for i := range b.Records {
				b.Records[i].Cut = 0
			}
		})},
	},
	"a changed rate counts from the last write": {
		{name: "the first rate for ever", request: first(func(rate, now *bucket.Rate) {
			rate.Capacity, rate.Full = now.Capacity, now.Capacity*rate.Unit
		})},
	},
	"limits that a version lacks keep their tokens": {
		{name: "dropped", state: records(func(r *store.Request, b *bucket.Bucket) {
			b.Records = slices.DeleteFunc(b.Records, func(record bucket.Record) bool { return r.Set.IndexOf(record.Tag) < 0 })
		})},
	},

	"a refund fills a bucket, and no further": {
		{name: "refunds are lost", request: func(_ *broken, r *store.Request) {
			each(r, func(n int64) int64 { return max(0, n) })
		}},
		{name: "denials are repeated after a refund", instead: repeating(func(*store.Request) bool { return false })},
	},
	"a debit makes a debt, which is paid first": {
		{name: "a debit takes what is there", request: func(_ *broken, r *store.Request) {
			if r.Action == bucket.Charge && r.Of(0) > 0 {
				r.Action, r.Times = bucket.Take, r.Of(0)
				r.Each = &[]int64{1}
			}
		}},
	},
	"an undo gives back what was taken": {
		{name: "slots stay in use", request: withoutEnds},
	},
	"reservations are due in turn": {
		{name: "all are due at once", answer: func(_ *store.Request, a *store.Answer) { a.Due = a.Now }},
	},
	"a cancel gives back what nobody reserved behind it": {
		{name: "a cancel is a refund", request: func(_ *broken, r *store.Request) {
			if r.Action == bucket.Cancel {
				r.Action, r.N = bucket.Charge, -r.N
			}
		}},
	},

	"no more slots are in use than there are": {
		{name: "holds are not counted", state: records(func(_ *store.Request, b *bucket.Bucket) {
			for i := range b.Records {
				b.Records[i].Held = 0
			}
		})},
	},
	"a released slot is free at once, and once": {
		{name: "releases are lost", request: withoutEnds},
		{name: "a release gives back whatever is held", state: records(func(r *store.Request, b *bucket.Bucket) {
			if r.Action == bucket.Charge && r.Ends != nil {
				b.Holds, b.Records[0].Held = nil, 0
			}
		})},
	},
	"a slot comes back after MaxHold, not before": {
		keeping(30 * time.Second),
		{name: "holds never end", state: records(func(_ *store.Request, b *bucket.Bucket) {
			for i := range b.Holds {
				b.Holds[i].End += time.Hour.Microseconds()
			}
		})},
	},
	"Hold keeps a slot for another MaxHold": {
		{name: "does nothing", request: func(_ *broken, r *store.Request) {
			if r.Action == bucket.Extend {
				r.Request = r.Look()
			}
		}},
	},
	"a lost slot is held again only if free": {
		{name: "held in any case", answer: func(r *store.Request, a *store.Answer) {
			a.Allowed = a.Allowed || r.Action == bucket.Extend
		}},
	},
	"an estimate comes back after MaxHold, once": {
		{name: "used up at once", request: func(_ *broken, r *store.Request) { r.Set = withoutHolds(r.Set) }},
		keeping(20 * time.Second),
	},
	"a settlement charges the use, and frees no slot": {
		{name: "all holds of a ticket end", request: func(s *broken, r *store.Request) {
			if r.Holds() && r.Action == bucket.Take {
				s.more[r.Ticket] = r.Ending().Ends
			}
			if ends, held := s.more[r.Ticket].(*[]int64); held && r.Action == bucket.Charge {
				r.Ends = ends
			}
		}},
		{name: "charged beside the estimate", request: withoutEnds},
		{name: "not if it is late", instead: func(s *broken, r store.Request) (store.Answer, error) {
			if r.Action == bucket.Charge && r.Ends != nil {
				look := r
				look.Request = r.Ending()
				if _, next, _, _ := look.Decide(s.states[s.address(r.Policy(), r.Key())], s.clock()); next == nil {
					return store.Answer{Allowed: true}, nil
				}
			}
			return s.decide(r, s.clock())
		}},
	},

	"several keys give together, or none does": {
		{name: "charged one after another", together: func(s *broken, requests []store.Request) ([]store.Answer, error) {
			answers, _, err := s.decideAll(requests, false)
			return answers, err
		}},
		{name: "answered in another order", together: func(s *broken, requests []store.Request) ([]store.Answer, error) {
			requests = slices.Clone(requests)
			slices.Reverse(requests)
			answers, all, err := s.decideAll(requests, true)
			if all {
				answers, _, err = s.decideAll(requests, false)
			}
			return answers, err
		}},
		{name: "slots are taken though another key denies",
			together: func(s *broken, requests []store.Request) ([]store.Answer, error) {
				answers, all, err := s.decideAll(requests, true)
				for i, r := range requests {
					if all || r.Set.Holds && answers[i].Allowed {
						answers[i], err = s.decide(r, s.clock())
					}
				}
				return answers, err
			}},
	},

	"concurrent requests get exactly the capacity": {
		{name: "not atomic", apart: func(*store.Request) bool { return true }},
		{name: "not atomic for slots", apart: func(r *store.Request) bool { return r.Set.Holds }},
	},
	"concurrent refunds lose nothing": {
		{name: "refunds are not atomic", apart: func(r *store.Request) bool { return r.Gives() }},
	},
	"concurrent requests on a running clock get MaxIn": {
		{name: "the clock is read before", early: true},
	},
	"concurrent joint requests get exactly the capacity": {
		{name: "looked at and taken in two steps",
			together: func(s *broken, requests []store.Request) ([]store.Answer, error) {
				s.mu.Lock()
				answers, all, err := s.decideAll(requests, true)
				s.mu.Unlock()
				if !all {
					return answers, err
				}
				for range 100 {
					runtime.Gosched()
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				answers, _, err = s.decideAll(requests, false)
				return answers, err
			}},
	},
	"a call whose context has ended returns its error": {
		{name: "an outage", instead: func(s *broken, r store.Request) (store.Answer, error) {
			if s.ended {
				return store.Answer{}, errors.New("connection lost")
			}
			return s.decide(r, s.clock())
		}},
		{name: "it hangs", hangs: true, instead: func(s *broken, r store.Request) (store.Answer, error) {
			if s.ended {
				select {}
			}
			return s.decide(r, s.clock())
		}},
	},
	"every policy and key has its own bucket": {
		{name: "joined without escaping", address: func(policy, key string) string { return policy + ":" + key }},
		{name: "escaped at most once", key: strings.NewReplacer("{", "%7B", "}", "%7D").Replace},
		{name: "the policy is forgotten", address: func(_, key string) string { return key }},
		{name: "cut at NUL", key: func(key string) string { return strings.Split(key, "\x00")[0] }},
		{name: "cut at 100 bytes", key: func(key string) string { return key[:min(100, len(key))] }},
		{name: "valid UTF-8", key: func(key string) string { return strings.ToValidUTF8(key, "\uFFFD") }},
		{name: "lower case", key: strings.ToLower},
	},
	"a kept key is cloned": {{name: "kept as it is", address: func(_, key string) string { return key }}},
	"a reset fills its bucket, and no other": {
		{name: "resets all", reset: func(s *broken, _ string) { clear(s.states) }},
		{name: "does nothing", reset: func(*broken, string) {}},
		{name: "denials are repeated after a reset", instead: repeating(func(r *store.Request) bool { return r.Gives() })},
	},
	"State shows what is kept, and changes nothing": {
		{name: "nothing is shown", shows: func(_ *broken, state *store.State) { state.Bytes = nil }},
		{name: "the process's clock", shows: func(_ *broken, state *store.State) { state.Now = time.Now() }},
		{name: "it resets", shows: func(s *broken, _ *store.State) { clear(s.states) }},
	},

	"any history is answered as Request.Decide answers": {
		{name: "one decision of fifty is lost", keep: func() func(*store.Answer, []byte) bool {
			n := 0
			return func(_ *store.Answer, next []byte) bool { n++; return next != nil && n%50 > 0 }
		}()},
	},
}

// monotonic is a store whose clock never goes back.
var monotonic = fault{name: "a clock that never goes back", now: func(s *broken, now time.Time) time.Time {
	if before, ok := s.more["latest"].(time.Time); ok && before.After(now) {
		return before
	}
	s.more["latest"] = now
	return now
}}

// keeping is a store that keeps state for at most d.
func keeping(d time.Duration) fault {
	name := "state is kept for " + d.String()
	return fault{name: name, keeps: func(_ *store.Request, _ *store.Answer, ttl time.Duration) time.Duration {
		return min(d, ttl)
	}}
}

// records is a store that decides by other records than it has stored.
func records(change func(r *store.Request, b *bucket.Bucket)) func(*broken, *store.Request, []byte) []byte {
	return func(_ *broken, r *store.Request, state []byte) []byte {
		var b bucket.Bucket
		if b.Parse(state) != nil {
			return state
		}
		change(r, &b)
		return b.Append(nil)
	}
}

// first is a store that decides by the definition that a policy's limits had
// first, but for what change takes from that of now.
func first(change func(rate, now *bucket.Rate)) func(*broken, *store.Request) {
	return func(s *broken, r *store.Request) {
		rates, ok := s.more[r.Policy()].([]bucket.Rate)
		if !ok {
			rates = slices.Clone(r.Set.Rates)
			s.more[r.Policy()] = rates
		}
		if len(rates) == len(r.Set.Rates) {
			rates = slices.Clone(rates)
			for i := range rates {
				change(&rates[i], &r.Set.Rates[i])
			}
			r.Set = bucket.NewLimitSet(rates)
		}
	}
}

// each changes what a request charges each limit.
func each(r *store.Request, change func(n int64) int64) {
	if r.Action == bucket.Charge && r.Each != nil {
		changed := slices.Clone(*r.Each)
		for i := range changed {
			changed[i] = change(changed[i])
		}
		r.Each = &changed
	}
}

// withoutEnds is a store that ends no holds.
func withoutEnds(_ *broken, r *store.Request) {
	if r.Action == bucket.Charge {
		r.Ends = nil
	}
}

// repeating is a store that repeats denials, unless a request drops them.
func repeating(drops func(*store.Request) bool) func(*broken, store.Request) (store.Answer, error) {
	return func(s *broken, r store.Request) (store.Answer, error) {
		if drops(&r) {
			clear(s.more)
		}
		if denied, ok := s.more[r.N].(store.Answer); ok && r.Takes() && r.Each == nil {
			return denied, nil
		}
		a, err := s.decide(r, s.clock())
		if !a.Allowed && r.Moves() && r.Each == nil {
			s.more[r.N] = a
		}
		return a, err
	}
}

// withoutHolds returns limits whose tokens are used at once.
func withoutHolds(p *bucket.LimitSet) *bucket.LimitSet {
	rates := slices.Clone(p.Rates)
	for i := range rates {
		if rates[i].Hold = 0; rates[i].Gain == 0 {
			rates[i].Gain, rates[i].Step = 1, bucket.Forever
		}
	}
	return bucket.NewLimitSet(rates)
}
