package storetest_test

import (
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// changingRecords returns a store that decides by other records than it has
// stored.
func changingRecords(change func(r *store.Request, record *bucket.Record)) brokenStore {
	return changingState(func(r *store.Request, before []byte) []byte {
		var b bucket.Bucket
		if b.Parse(before) != nil {
			return before
		}
		for i := range b.Records {
			change(r, &b.Records[i])
		}
		return b.Append(nil)
	})
}

// redefined makes a record one that the request's own definition has written,
// with as many tokens left.
func redefined(r *store.Request, record *bucket.Record) {
	if i := r.Set.IndexOf(record.Tag); i >= 0 {
		rate := &r.Set.Rates[i]
		left := record.Capacity - record.Used/record.Unit
		record.Unit, record.Capacity = rate.Unit, rate.Capacity
		record.Used = max(0, rate.Capacity-left) * rate.Unit
	}
}

// definitionMistakes are about a limit with several definitions.
var definitionMistakes = map[string]mistake{
	"a capacity that only refills": {rule: "what_a_higher_capacity_adds_is_there_at_once", store: changingRecords(redefined)},
	"a lower capacity cuts for all": {rule: "what_a_lower_capacity_cut_is_there_again",
		store: changingRecords(func(_ *store.Request, record *bucket.Record) { record.Cut = 0 })},
	"what was used is forgotten": {rule: "a_definition_does_not_give_another_one_its_tokens",
		store: changingRecords(func(r *store.Request, record *bucket.Record) {
			if i := r.Set.IndexOf(record.Tag); i >= 0 && record.Capacity != r.Set.Rates[i].Capacity {
				record.Used, record.Cut = 0, 0
			}
		})},
}
