package main

import (
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
)

// method tells how the numbers came about.
func (s *suite) method() string {
	return fmt.Sprintf(`Contenders take turns on one machine with one Redis, and each round begins with another of them: %d rounds of %v each in every case. Tables show
the median of the rounds, and of the ratios within each round. Machines are noisy: compare within a table.

The run fails unless every request is decided as the case says, by the store and without an error, and all keys are in use (counted in Redis). Each contender has
its own database and connections. The load is a closed loop, except at a fixed rate; wrk has rounds of whole seconds. Some cases leave out those that take more than
one call: throttled, httprate-redis, gin-rate-limit.

The contenders [do different things](comparison.md#deciding): a fixed window only counts. Not measured: go-limiter's Redis store, another module, and
[INCREX](https://redis.io/commands/increx) of Redis 8.8, for the server here is older. This command counts up to a bound and sets the TTL, without Lua: it
can replace the script of a fixed window. It reads no clock and refills nothing, so it makes no token bucket.

Settings that are not defaults:

- %s
`, s.rounds, s.round, strings.Join(peers.Settings, "\n- "))
}
