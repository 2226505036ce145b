package storetest_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// togetherFunc is the DoTogether of a brokenJointStore.
type togetherFunc func(s *brokenJointStore, requests []store.Request) ([]store.Answer, error)

// brokenJointStore is a brokenStore that decides several requests in one step.
type brokenJointStore struct {
	*brokenStore
	together togetherFunc
}

func (s *brokenJointStore) DoTogether(_ context.Context, requests []store.Request) ([]store.Answer, error) {
	return s.together(s, requests)
}

// decideAll decides requests one after another. If dry, none takes anything.
// s.mu is held.
func (s *brokenJointStore) decideAll(requests []store.Request, dry bool) (answers []store.Answer, all bool, err error) {
	all = true
	for _, r := range requests {
		address := s.address(r.Policy(), r.Key())
		r.Dry = dry
		a, next, _, err := r.Decide(s.states[address], s.now())
		if next != nil {
			s.states[address] = next
		}
		if err != nil {
			return nil, false, err
		}
		answers, all = append(answers, a), all && a.Allowed
	}
	return answers, all, nil
}

func soundTogether(s *brokenJointStore, requests []store.Request) ([]store.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, all, err := s.decideAll(requests, true)
	if all {
		answers, _, err = s.decideAll(requests, false)
	}
	return answers, err
}

// as returns a store that decides another request than it was given.
func as(change func(r *store.Request)) brokenStore {
	return brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
		change(&r)
		return sound(s, address, r)
	}}
}

// keeping returns a store that forgets a key so long after its last write.
func keeping(atMost time.Duration) brokenStore {
	return brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		now, written := s.now(), time.Time{}
		_ = written.UnmarshalBinary(s.states["written "+address])
		if now.Sub(written) >= atMost {
			delete(s.states, address)
		}
		a, next, _, err := r.Decide(s.states[address], now)
		if next != nil {
			s.states[address] = next
			s.states["written "+address], _ = now.MarshalBinary()
		}
		return a, err
	}}
}

// returns is a store that changes what comes back to each limit. What is below
// 0 is charged.
func returns(change func(s *brokenStore, address string, r store.Request, back []int64)) brokenStore {
	return brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
		if r.Action == bucket.Charge {
			back := make([]int64, len(r.Set.Rates))
			for i := range back {
				back[i] = -r.Of(i)
			}
			change(s, address, r, back)
			for i := range back {
				back[i] = -back[i]
			}
			r.Each = &back
		}
		return sound(s, address, r)
	}}
}

// quotaMistakes are about units, calendars, debts, overrides, and buckets that
// are charged together.
var quotaMistakes = map[string]mistake{
	"none, several buckets": {store: brokenStore{address: twoPart, do: sound}, together: soundTogether},
	"units ignored": {rule: "units_are_taken_from_the_limits_that_count_them",
		store: as(func(r *store.Request) { r.Each = nil })},
	"a unit charged to every limit": {rule: "units_are_taken_from_the_limits_that_count_them",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Take && r.Each == nil {
				each := slices.Repeat([]int64{r.N}, len(r.Set.Rates))
				r.Each = &each
			}
		})},
	"each unit decided by itself": {rule: "of_several_units_all_are_taken_or_none",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (a store.Answer, err error) {
			if r.Action != bucket.Take || r.Each == nil {
				return sound(s, address, r)
			}
			for i := range *r.Each {
				one := make([]int64, len(*r.Each))
				one[i] = (*r.Each)[i]
				r := r
				r.Each = &one
				if a, err = sound(s, address, r); err != nil || !a.Allowed {
					break
				}
			}
			return a, err
		}}},
	"at most is all or nothing": {rule: "as_much_as_is_there_is_taken",
		store: as(func(r *store.Request) {
			if r.Times > 1 {
				r.N, r.Times = r.N*r.Times, 0
			}
		})},
	"at most is one": {rule: "as_much_as_is_there_is_taken",
		store: as(func(r *store.Request) {
			r.Times = min(r.Times, 1)
		})},
	"a debit of what is there": {rule: "a_debit_charges_what_is_not_there",
		store: returns(func(s *brokenStore, address string, r store.Request, back []int64) {
			charge := slices.Clone(back)
			for i := range charge {
				charge[i] = max(0, -back[i])
			}
			r.Action, r.Each, r.Dry = bucket.Take, &charge, true
			if a, _ := sound(s, address, r); !a.Allowed {
				clear(back)
			}
		})},
	"a settlement keeps what was too much": {rule: "a_settlement_returns_what_was_too_much",
		store: returns(func(_ *brokenStore, _ string, _ store.Request, back []int64) {
			for i := range back {
				back[i] = min(0, back[i])
			}
		})},
	"a settlement forgives what was too little": {rule: "a_settlement_charges_what_was_too_little",
		store: returns(func(_ *brokenStore, _ string, _ store.Request, back []int64) {
			for i := range back {
				back[i] = max(0, back[i])
			}
		})},
	"an hour kept": {rule: "days_are_those_of_a_place", store: keeping(time.Hour)},
	"a day kept":   {rule: "months_are_those_of_the_calendar", store: keeping(24 * time.Hour)},
	"40 days kept": {rule: "a_debt_to_a_calendar_is_paid_by_its_periods", store: keeping(40 * 24 * time.Hour)},
	"clock of another place": {rule: "days_are_those_of_a_place",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			a, next, _, err := r.Decide(s.states[address], s.now().Add(7*time.Hour))
			if next != nil {
				s.states[address] = next
			}
			return a, err
		}}},
	"charged one after another": {rule: "of_buckets_that_are_charged_together_all_give_or_none",
		store: brokenStore{address: twoPart, do: sound},
		together: func(s *brokenJointStore, requests []store.Request) ([]store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			answers, _, err := s.decideAll(requests, false)
			return answers, err
		}},
	"looked at and charged apart": {rule: "concurrent_charges_of_several_buckets_take_what_is_allowed",
		store: brokenStore{address: twoPart, do: sound},
		together: func(s *brokenJointStore, requests []store.Request) ([]store.Answer, error) {
			s.mu.Lock()
			answers, all, err := s.decideAll(requests, true)
			s.mu.Unlock()
			if !all {
				return answers, err
			}
			runtime.Gosched()
			s.mu.Lock()
			defer s.mu.Unlock()
			answers, _, err = s.decideAll(requests, false)
			return answers, err
		}},
}

// changingState is a store that decides by other state than it has stored.
func changingState(change func(r *store.Request, before []byte) []byte) brokenStore {
	return brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := s.states[address]
		if before != nil {
			before = change(&r, before)
		}
		a, next, _, err := r.Decide(before, s.now())
		if next != nil {
			s.states[address] = next
		}
		return a, err
	}}
}

// allMistakes returns the stores with their names.
func allMistakes() map[string]mistake {
	all := maps.Clone(mistakes)
	maps.Copy(all, quotaMistakes)
	maps.Copy(all, slotMistakes)
	maps.Copy(all, definitionMistakes)
	return all
}
