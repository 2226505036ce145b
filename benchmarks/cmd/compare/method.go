package main

import "fmt"

// method tells how the numbers came about.
func (s *suite) method() string {
	return fmt.Sprintf(`Contenders take turns on one machine with one Redis (A, B, C, A, B, C, …): %d rounds of %v each in every case. Tables show the median
of the rounds; a ratio is taken within each round, between neighbours in time, and its median shown, so it may differ a little from the
ratio of two medians. Machines are shared and noisy: compare within a table, not with other machines.

Each case asserts its premise, and the run fails where it does not hold: every request is decided as the case says (all allowed, or all
denied), none by a fallback, no error, all keys really in use (counted in Redis). Each contender has a database and a
connection pool of its own with its client's defaults.

Load is a closed loop, except in the case of a fixed rate: each goroutine, or connection, asks again as soon as it is answered. Whole
servers are loaded by wrk, in rounds of whole seconds (it knows no parts of them) and from one thread, which leaves the other core to the
server. Rounds at a fixed rate are twice as long, for p99.9 needs many requests. Cases with four contenders have those that decide in
one script; the others are slower.

Contenders do not all do the same: token buckets and GCRA decide exactly by a rate and a burst; a fixed window only counts, and admits
twice its limit around its end. sethvargo/go-limiter is measured with its memory store only: its
Redis store, go-redisstore, is another module.
`, s.rounds, s.round)
}
