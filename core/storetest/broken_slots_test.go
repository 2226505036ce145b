package storetest_test

import (
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// slotMistakes are about slots and estimates, which come back.
var slotMistakes = map[string]mistake{
	"slots are used up at once": {rule: "no_more_slots_are_out_than_there_are",
		store: as(func(r *store.Request) {
			r.Set = withoutHolds(r.Set)
		})},
	"releases ignored": {rule: "a_released_slot_is_there_for_the_next_request",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Charge && !r.Moves() {
				r.Ends = nil
			}
		})},
	"half a minute kept": {rule: "a_slot_is_there_again_after_MaxHold,_and_not_before", store: keeping(30 * time.Second)},
	"slots and tokens apart": {rule: "slots_and_tokens_are_taken_together_or_not_at_all",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (a store.Answer, err error) {
			if r.Action != bucket.Take || !r.Moves() || len(r.Set.Rates) != 2 {
				return sound(s, address, r)
			}
			for i := range r.Set.Rates {
				each := make([]int64, len(r.Set.Rates))
				each[i] = r.Of(i)
				one := r
				one.Each = &each
				if a, err = sound(s, address, one); err != nil || !a.Allowed {
					break
				}
			}
			return a, err
		}}},
	"a release of whichever slot is next": {rule: "a_late_release_takes_no_slot_from_another_request",
		store: oneTicket()},
	"a hold that takes again": {rule: "a_slot_that_is_held_stays_out_for_another_MaxHold",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Extend {
				r.Action, r.Ends, r.Ticket = bucket.Take, nil, r.Ticket+1
			}
		})},
	"a hold that does nothing": {rule: "a_slot_that_is_held_stays_out_for_another_MaxHold",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Extend {
				none := make([]int64, len(r.Set.Rates))
				r.Action, r.Each, r.Ends = bucket.Charge, &none, nil
			}
		})},
	"a lost slot is held all the same": {rule: "a_slot_that_was_lost_is_held_again_only_if_it_is_free",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			a, err := sound(s, address, r)
			a.Allowed = a.Allowed || r.Action == bucket.Extend
			return a, err
		}}},
	"slots of another MaxHold forgotten": {rule: "a_slot_keeps_the_MaxHold_that_it_was_taken_with",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			if hold := time.Duration(r.Set.Rates[0].Hold).String(); string(s.states["hold "+address]) != hold {
				delete(s.states, address)
				s.states["hold "+address] = []byte(hold)
			}
			s.mu.Unlock()
			return sound(s, address, r)
		}}},
	"limits that a version lacks forgotten": {rule: "slots_outlast_a_version_of_the_policy_without_them",
		store: changingState(func(r *store.Request, before []byte) []byte {
			var b bucket.Bucket
			if b.Parse(before) != nil {
				return before
			}
			for _, record := range b.Records {
				if r.Set.IndexOf(record.Tag) < 0 {
					return nil
				}
			}
			return before
		})},
	"an undo that leaves slots out": {rule: "a_decision_that_is_undone_gives_back_slots_and_tokens",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Charge {
				r.Ends = nil
			}
		})},
	"at most takes slots for good": {rule: "as_many_slots_as_are_there_are_taken",
		store: as(func(r *store.Request) {
			if r.Times > 0 {
				r.Ticket++
			}
		})},
	"slots read and written apart": {rule: "concurrent_requests_never_have_more_slots_than_there_are", store: apart},
	"an estimate used up at once": {rule: "an_estimate_that_is_not_settled_comes_back_after_MaxHold,_once",
		store: as(func(r *store.Request) {
			r.Set = withoutHolds(r.Set)
		})},
	"a settlement beside its estimate": {rule: "an_estimate_that_is_settled_in_time_is_corrected",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Charge {
				r.Ends = nil
			}
		})},
	"a late settlement ignored": {rule: "an_estimate_that_is_settled_late_is_charged_in_full",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			if r.Action == bucket.Charge && r.Ends != nil {
				look := r
				look.Request = r.Ending()
				s.mu.Lock()
				a, _, _, _ := look.Decide(s.states[address], s.now())
				s.mu.Unlock()
				if a.There == 0 {
					return store.Answer{Allowed: true}, nil
				}
			}
			return sound(s, address, r)
		}}},
	"estimates read and written apart": {rule: "concurrent_requests_can't_pass_an_estimate_by", store: apart},
}

// apart is a store that reads and writes in two steps.
var apart = mistakes["read and write apart"].store

// oneTicket is a store that knows only one holder for each key: all holds are
// the same.
func oneTicket() brokenStore {
	return as(func(r *store.Request) {
		if r.Ticket != 0 {
			r.Ticket = 1
		}
	})
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
