package storetest_test

import (
	"maps"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// shareMistakes are about several charges of one bucket, which hold something
// each.
var shareMistakes = map[string]mistake{
	"charges of one bucket decided by its state before all": {rule: "of_several_charges_of_one_bucket_each_ends_its_own_share",
		store: brokenStore{address: twoPart, do: sound},
		together: func(s *brokenJointStore, requests []store.Request) []store.JointAnswer {
			s.mu.Lock()
			defer s.mu.Unlock()
			answers, all := s.decideAll(requests, true)
			if !all {
				return answers
			}
			before, after := s.states, maps.Clone(s.states)
			for i, r := range requests {
				s.states = maps.Clone(before)
				one, _ := s.decideAll(requests[i:i+1], false)
				address := core.JoinKey(r.Policy(), r.Key())
				answers[i], after[address] = one[0], s.states[address]
			}
			s.states = after
			return answers
		}},
	"no holds ended in one step with others": {rule: "of_several_charges_of_one_bucket_each_ends_its_own_share",
		store: brokenStore{address: twoPart, do: sound},
		together: func(s *brokenJointStore, requests []store.Request) []store.JointAnswer {
			for i := range requests {
				requests[i].Ends = bucket.Ending{}
			}
			return soundTogether(s, requests)
		}},
	"a settlement that leaves the estimate": {rule: "of_several_charges_of_one_bucket_each_is_settled_by_itself",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Refund {
				r.Ends = bucket.Ending{}
			}
		})},
	"a ticket for all holds of a bucket": {rule: "of_several_charges_of_one_bucket_one_alone_is_held", store: oneTicket()},
	"half a minute kept of shares":       {rule: "the_share_of_a_charge_that_is_never_ended_comes_back_after_MaxHold", store: keeping(30 * time.Second)},
	"a hold of shares that does nothing": {rule: "several_charges_of_one_bucket_that_are_ended_together_end_each_once",
		store: as(func(r *store.Request) {
			if r.Action == bucket.Acquire && r.Ends.Ticket == r.Ticket {
				*r.Each = make([]int64, len(*r.Each))
			}
		})},
	"shares of a sum that is denied": {rule: "several_charges_of_one_bucket_that_it_has_no_room_for_hold_nothing",
		store: brokenStore{address: twoPart, do: sound},
		together: func(s *brokenJointStore, requests []store.Request) []store.JointAnswer {
			s.mu.Lock()
			defer s.mu.Unlock()
			answers, _ := s.decideAll(requests, false)
			return answers
		}},
	"shares read and written apart": {rule: "concurrent_requests_with_several_charges_of_one_bucket_never_have_more_than_there_is", store: apart},
}
