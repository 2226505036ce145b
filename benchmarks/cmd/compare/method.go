package main

import "fmt"

// method tells how the numbers came about.
func (s *suite) method() string {
	return fmt.Sprintf(`Contenders take turns on one Redis, each round beginning with another: %d rounds of %v in every case. Tables show the median of the rounds and,
in brackets, of the ratios within each round, to redis_rate unless a section names another peer. Compare within a table: machines are noisy.

The run fails unless every request is decided as the case says, by the store and without an error, and all keys are in use. Each contender has its own
database and connections. The load is a closed loop, except at a fixed rate. Some cases leave out throttled and httprate-redis, which take more than one
call.

The contenders [do different things](comparison.md#deciding): a fixed window only counts. Not measured: go-limiter's Redis store, and
[INCREX](redis-commands.md) of Redis 8.8. [Some settings](../benchmarks/internal/peers/settings.go) differ from defaults.
`, s.rounds, s.round)
}
