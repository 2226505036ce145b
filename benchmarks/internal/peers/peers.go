// Package peers builds this library and its peers with the same limit, so that a case can compare
// them. Each is used as its documentation says; where there is a choice, the quicker way is taken.
package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Library is the name of this library among the contenders.
const Library = "ratelimit"

// Limit is a bucket of Burst tokens that refills by Rate every Per. Peers that count windows admit
// Burst requests in an hour.
type Limit struct {
	Burst int
	Rate  int
	Per   time.Duration
}

// window is the window of peers that know no buckets: none of the cases outlasts it.
const window = time.Hour

func (l Limit) core() core.Limit {
	return core.Limit{Capacity: int64(l.Burst), RefillRate: float64(l.Rate), RefillInterval: l.Per}
}

// perToken is the time that refills one token.
func (l Limit) perToken() time.Duration { return l.Per / time.Duration(l.Rate) }

// Decide takes a token for key and reports whether there was one. An error means that nothing was
// decided.
type Decide func(ctx context.Context, key string) (allowed bool, err error)

// Expect decides once, and returns an error unless the decision is want.
func (d Decide) Expect(ctx context.Context, key string, want bool) error {
	allowed, err := d(ctx, key)
	if err != nil {
		return fmt.Errorf("key %s: %w", key, err)
	}
	if allowed != want {
		return fmt.Errorf("key %s: allowed is %v, must be %v", key, allowed, want)
	}
	return nil
}

// Limits that admit all that a run can ask for, and refill more slowly than any contender asks, so that keys outlive the
// run: of many keys in Redis, and of a single key or in memory.
var (
	Roomy = Limit{Burst: 1_000_000, Rate: 1, Per: time.Minute}
	Vast  = Limit{Burst: 1_000_000_000, Rate: 1, Per: time.Second}
)
