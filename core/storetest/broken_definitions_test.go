package storetest_test

import (
	"encoding/binary"
	"slices"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// redefined is the state of one limit as if the request's own definition had
// written it.
func redefined(r *store.Request, before []byte) []byte {
	records, err := bucket.ParseRecords(nil, before)
	if err != nil || len(before) != bucket.RecordSize {
		return before
	}
	own := &r.Set.Rates[0]
	units := records[0].Units / records[0].Rate.Unit * own.Unit
	level := binary.BigEndian.AppendUint64(nil, uint64(units+bucket.ZeroUnits))[1:]
	return slices.Concat([]byte(r.Set.Packed), level, before[bucket.DefinitionSize+7:])
}

// definitionMistakes are about a limit with several definitions.
var definitionMistakes = map[string]mistake{
	"a capacity that only refills": {rule: "what_a_higher_capacity_adds_is_there_at_once",
		store: changingState(redefined)},
	"a lower capacity cuts for all": {rule: "what_a_lower_capacity_cut_is_there_again",
		store: changingState(func(_ *store.Request, before []byte) []byte {
			records, err := bucket.ParseRecords(nil, before)
			if err != nil || len(records) != 1 || records[0].Cut == nil {
				return before
			}
			return before[:bucket.RecordSize]
		})},
	"what was used is forgotten": {rule: "a_definition_does_not_give_another_one_its_tokens",
		store: changingState(func(r *store.Request, before []byte) []byte {
			if len(before) != bucket.RecordSize || string(before[:bucket.DefinitionSize]) == r.Set.Packed {
				return before
			}
			return nil
		})},
	"a rate that counts for the past": {rule: "a_change_alters_nothing_that_is_there,_and_its_rate_counts_from_then_on",
		store: changingState(redefined)},
	"a change that no denial stores": {rule: "a_change_counts_for_a_key_that_is_denied",
		store: brokenStore{address: twoPart, do: func(s *brokenStore, address string, r store.Request) (store.Answer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			a, next, _, err := r.Decide(s.states[address], s.now())
			if next != nil && a.Allowed {
				s.states[address] = next
			}
			return a, err
		}}},
	"holds of another definition forgotten": {rule: "at_rest_every_definition_has_its_capacity_less_what_was_used",
		store: changingState(func(r *store.Request, before []byte) []byte {
			records, err := bucket.ParseRecords(nil, before)
			if err != nil || len(records) != 1 || records[0].Holds == nil || string(before[:bucket.DefinitionSize]) == r.Set.Packed {
				return before
			}
			return before[:bucket.RecordSize]
		})},
	"what comes back pays what was cut": {rule: "what_is_undone_under_a_lower_capacity_comes_back",
		store: changingState(func(_ *store.Request, before []byte) []byte {
			records, err := bucket.ParseRecords(nil, before)
			if err != nil || len(records) != 1 || records[0].Cut == nil {
				return before
			}
			after := slices.Clone(before) // as if the level had been empty when it was cut, and nothing had come since
			copy(after[bucket.RecordSize+bucket.CutSize-7:], make([]byte, 7))
			return after
		})},
}
