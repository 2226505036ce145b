package storetest

import (
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// stateShows is for a [store.StateReader].
func stateShows(s *subject) {
	reader, reads := s.store.(store.StateReader)
	if !reads {
		s.Skip("the store is no store.StateReader")
	}
	l := s.limiter(core.PerDay(10), atOnce(5))
	for _, taken := range []int64{0, 4} {
		s.take(l, taken, "a new key")
		for range 2 {
			state, err := reader.State(s.Context(), "api", key)
			s.no(err)
			var b bucket.Bucket
			if s.no(b.Parse(state.Bytes)); (len(b.Records) > 0) != (taken > 0) || int64(len(b.Holds)) != min(1, taken) {
				s.broken("after %d were taken, State has %d records and %d holds", taken, len(b.Records), len(b.Holds))
			}
			if !state.Now.Equal(s.clock.Now()) {
				s.broken("State says that the clock shows %v, and it shows %v", state.Now, s.clock.Now())
			}
		}
		s.left(l, "after State", 10-taken, 5-taken)
	}
}
