package main

import "fmt"

// method tells how the numbers came about.
func (s *suite) method() string {
	return fmt.Sprintf(`Contenders take turns on one machine with one Redis (A, B, C, A, B, C, …): %d rounds of %v each in every case. Tables show the median
of the rounds; a ratio is taken within each round, between neighbours in time, and its median shown, so it may differ a little from the
ratio of two medians. The machine is shared and noisy: compare within a table, not with other machines.

Each case asserts its premise, and the run fails where it does not hold: every request is decided as the case says (all allowed, or all
denied), none by a fallback, no error, all keys really in use (counted in Redis). Each contender has a database and a
connection pool of its own with its client's defaults. Load is a closed loop: each goroutine asks again as soon as it is answered.

Contenders do not all do the same: token buckets and GCRA decide exactly by a rate and a burst; a fixed window only counts, and admits
twice its limit around its end. sethvargo/go-limiter is measured with its memory store only: its
Redis store, go-redisstore, is another module.
`, s.rounds, s.round)
}
