package main

import (
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
)

// method tells how the numbers came about.
func (s *suite) method() string {
	return fmt.Sprintf(`Contenders take turns on one machine with one Redis, and each round begins with another of them: %d rounds of %v each in every case. Tables show
the median of the rounds, and of the ratios within each round. Machines are shared and noisy: compare within a table.

Each case checks its premise, and the run fails if it does not hold: every request is decided as the case says, no fallback decides, there is no error, and
all keys are in use (counted in Redis). Each contender has its own database and connections. The load is a closed loop, but in the case of a fixed rate. wrk
uses one thread and rounds of whole seconds.

The contenders do different things: token buckets and GCRA decide exactly by a rate and a burst; a fixed window only counts, and admits twice its limit around its
end. go-limiter's Redis store is another module, and not measured. Redis 8.8 has [INCREX](https://redis.io/commands/increx), and Valkey 9.2 a command of this
name: one command without Lua that counts up to a bound and sets the TTL. A fixed window on it saves its script. It reads no clock and refills nothing, so it makes
no token bucket. It is not measured: the server here is older.

Settings that are not defaults:

- %s
`, s.rounds, s.round, strings.Join(peers.Settings, "\n- "))
}
