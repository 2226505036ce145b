// Package storestats is what a store of package redisstore reports of its work.
// It is a package because metrics read it without linking go-redis.
//
// See [docs/operations.md].
//
// [docs/operations.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/operations.md
package storestats

import (
	"strconv"
	"time"
)

// BatchSizes is the length of [Stats.Batches], a histogram of decisions per
// call.
const BatchSizes = 10

// Stats is what a store did since it was made. All but Breaker and Exceptions
// only grow. A store on a Cluster or a Ring has a breaker for each server; a
// server that nobody asks for 10 seconds does not count any more.
type Stats struct {
	Breaker BreakerState  // now; of several, the worst
	Opened  int64         // how often a breaker opened
	Away    time.Duration // for how long a breaker was not closed, one or several, all together

	Calls     int64             // script calls and pipelines that were sent
	Decisions int64             // that they carried
	Batches   [BatchSizes]int64 // calls by decisions carried: 1, 2, up to 4, up to 8 … up to 512

	Denied int64 // decisions by the deny cache
	Leased int64 // decisions on leased tokens

	Unreadable int64 // answers that a key's state can't be used

	Exceptions []Exceptions // now; of the policies whose exceptions the store follows, by name
}

// Exceptions is what a store knows of the exceptions of a policy that operators
// set while services run.
type Exceptions struct {
	Policy    string
	Overrides int           // in force now
	Blocks    int           // in force now
	Version   int64         // grows with each change: about when the newest was made, in microseconds since 1970; 0: none were read, or there are none
	Age       time.Duration // since Redis was asked for changes with success, or since the store began to follow them
}

// Source is a store that reports what it did, as redisstore.Store does. It is
// safe for concurrent use.
type Source interface{ Stats() Stats }

// BreakerState is what a store's circuit breaker does.
type BreakerState uint8

const (
	// BreakerClosed lets all decisions ask the server.
	BreakerClosed BreakerState = iota
	// BreakerHalfOpen lets one try whether the server is back.
	BreakerHalfOpen
	// BreakerOpen lets none.
	BreakerOpen
)

var states = [...]string{"closed", "half-open", "open"}

// String names the state in lower case, as metrics do.
func (s BreakerState) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return "BreakerState(" + strconv.Itoa(int(s)) + ")"
}
