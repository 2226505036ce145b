package main

import "fmt"

// method tells how the numbers came about.
func (s *suite) method() string {
	return fmt.Sprintf(`Contenders take turns on one machine with one Redis (A, B, C, A, B, C, …): %d rounds of %v each in every case. Tables show the median
of the rounds. A ratio is taken within each round, between neighbours in time, and the table shows its median. So it may differ a little from the
ratio of two medians. Machines are shared and noisy: compare within a table, not with other machines.

Each case checks its premise, and the run fails if it does not hold. Every request is decided as the case says: all allowed, or all
denied. No fallback decides, there is no error, and all keys are really in use (counted in Redis). Each contender has its own database and its own
connection pool, with its client's defaults.

The load is a closed loop: each goroutine, or connection, asks again as soon as it is answered. Only the case of a fixed rate is an open loop. Its rounds
are twice as long, because p99.9 needs many requests. wrk loads the whole servers, in rounds of whole seconds, because it has no shorter ones. It uses one
thread and leaves the other core to the server. Cases with four contenders have those that decide in one script; the others are slower.

The contenders do different things. Token buckets and GCRA decide exactly by a rate and a burst. A fixed window only counts, and admits
twice its limit around its end. sethvargo/go-limiter is measured with its memory store only: its
Redis store, go-redisstore, is another module.
`, s.rounds, s.round)
}
