package replay

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Outcome is what a policy does with the traffic.
type Outcome struct {
	Label    string
	Plan     string      // whose requests are counted; "": those that have none of the policy's plans
	Policy   core.Policy // as it was replayed; its Limits are those of the plan
	Notes    []string    // what was left out
	Requests int64       // of the plan, if the traffic has plans
	All      int64       // clients that have sent them
	Denied   int64       // requests
	Clients  int64       // that were denied at least once
	Never    int64       // denied requests that cost more than a Capacity, so that no wait helps
	Hours    []Hour      // from the first request's to the last one's
	Top      []Client    // denied most, at most top
	Longest  Stretch
	ByLimit  []int64 // denied requests that each limit of the policy had too few tokens for, without those of keys with overrides
	Search   Search  // zero until it was searched

	run *run
}

// Searched reports whether o.Search is there.
func (o *Outcome) Searched() bool { return o.Search.Share > 0 }

// Hour counts the requests of one hour.
type Hour struct {
	Start            int64 // µs since 1970
	Requests, Denied int64
}

// Client is what happened to one key.
type Client struct {
	Key              string
	Requests, Denied int64
}

// Stretch is a time in which every request of a client was denied: from the
// first one denied to when it would have passed again. That is its next request
// that passed, or the last denied one and its wait, if that is sooner.
type Stretch struct {
	Key      string
	From, To int64 // µs since 1970
	Requests int64
}

// Length is how long s is.
func (s Stretch) Length() time.Duration { return time.Duration(s.To-s.From) * time.Microsecond }

// Search is what it takes to spare a share of clients: that they are never
// denied.
type Search struct {
	Share    float64 // of clients, such as 0.999
	Most     int64   // how many may be denied then
	Enough   bool    // the policy spares them as it is
	Changes  []Change
	Overrode int64 // clients who are denied and whose overrides replace all limits: no change of the policy's limits spares them
}

// Change is a change of a policy that spares enough clients. One that is a
// little smaller does not: by 1 token of the burst, or 1 % of a rate
// and at least 1 of one that is a whole number from 20 on.
type Change struct {
	What    string // burst, rate, rate and burst, quota, or all limits
	Limit   string // the limit's name; "" for all
	Factor  float64
	Limits  []core.Limit // the policy's, with the change
	Changed []int        // their indexes
	Given   []core.Limit // the limits as they were given, with the change: also those that can't be replayed
	Denied  int64        // requests that are still denied
	Clients int64        // that are still denied
}
