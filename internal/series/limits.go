package series

import (
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Capacity is the Capacity of a limit that is in force.
type Capacity struct {
	Policy, Plan, Limit string // no Plan: the policy's own
	Tokens              int64
}

// Limits keeps the limits that are in force, and counts changes, by policy. It
// is safe for concurrent use.
type Limits struct {
	Most int // bound of the number of limits, and of policies whose changes are counted

	mu      sync.Mutex // guards all below
	size    int        // how many limits there are in all
	limits  map[string][]Capacity
	changes map[string]int64
}

// Note takes in the limits of a policy, in place of those that it had. A policy
// whose limits would exceed the bound has none, and its changes are counted
// under [Other].
func (l *Limits) Note(now core.Policy, changes []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limits == nil {
		l.limits, l.changes = make(map[string][]Capacity), make(map[string]int64)
	}
	l.size -= len(l.limits[now.Name])
	delete(l.limits, now.Name)
	var list []Capacity
	note := func(plan string, limits []core.Limit) {
		for _, limit := range limits {
			list = append(list, Capacity{now.Name, plan, limit.Name, limit.Capacity})
		}
	}
	note("", now.Limits)
	for plan, limits := range now.Plans {
		note(plan, limits)
	}
	if l.size+len(list) <= l.Most {
		l.limits[now.Name] = list
		l.size += len(list)
	}
	counted := now.Name
	if _, known := l.changes[counted]; !known && len(l.changes) >= l.Most {
		counted = Other
	}
	if l.changes[counted] += 0; changes != nil {
		l.changes[counted]++
	}
}

// Each calls capacity with each limit in force, and changes with how often
// SetPolicy changed a policy, which is 0 at first.
func (l *Limits) Each(capacity func(Capacity), changes func(policy string, n int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range l.limits {
		for _, c := range list {
			capacity(c)
		}
	}
	for policy, n := range l.changes {
		changes(policy, n)
	}
}
