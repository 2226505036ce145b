package series_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/series"
)

func TestTokensAreAtMostTheCapacity(t *testing.T) {
	for rule, test := range map[string]struct{ cost, capacity, want int64 }{
		"a cost that fits":          {5, 20, 5},
		"a cost above the capacity": {21, 20, 20},
		"the largest cost":          {math.MaxInt64, 20, 20},
		"a negative cost":           {-1, 20, 0},
	} {
		assert.Equal(t, test.want, series.Tokens(&core.Observation{Cost: test.cost, Capacity: test.capacity}), rule)
	}
}
