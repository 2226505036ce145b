package core

import "strconv"

// Source is who made a decision.
type Source uint8

const (
	// FromStore means that the limiter's store decided.
	FromStore Source = iota
	// FromDenyCache means that this process repeated an earlier denial that
	// still holds, without asking the store.
	FromDenyCache
	// FromLease means that this process allowed the request with tokens that it
	// had leased from the store before.
	FromLease
	// FromFallback means that this process decided alone, because the store
	// could not answer ([FailLocal]).
	FromFallback
	// FromFailOpen means that the request was allowed without a decision,
	// because the store could not answer ([FailOpen]), or there was no decision
	// in shadow mode.
	FromFailOpen
)

var sources = [...]string{"store", "deny-cache", "lease", "fallback", "fail-open"}

// String returns the source's name in lower case, as metrics use it: store,
// deny-cache, lease, fallback or fail-open.
func (s Source) String() string {
	if int(s) < len(sources) {
		return sources[s]
	}
	return "Source(" + strconv.Itoa(int(s)) + ")"
}
