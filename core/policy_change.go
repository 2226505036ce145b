package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// PolicyChange describes a policy that is in force from now on: see [WithPolicyObserver].
type PolicyChange struct {
	Policy string  // the policy's name
	Limits []Limit // its limits, each with the name that metrics and headers show

	// Plans are the limits of its plans, by the plan's name.
	Plans map[string][]Limit

	// Changes are what SetPolicy changed, one in each element, in words: `limit "api": 100/min, was 60/min`. Overrides and blocked keys are
	// only counted, because their keys can be personal data. It is nil if NewLimiter made the limiter.
	Changes []string
}

// changesTo returns how next differs from p, in words.
func (p Policy) changesTo(next Policy) (changes []string) {
	changed := func(field string, now, was any) {
		if now != was {
			changes = append(changes, fmt.Sprintf("%s: %v, was %v", field, now, was))
		}
	}
	changes = limitChanges("", p.lists().named(p.Limits), p.lists().named(next.Limits))
	for _, name := range slices.Sorted(maps.Keys(next.Plans)) {
		was, known := p.Plans[name]
		if !known {
			changes = append(changes, "plan "+strconv.Quote(name)+": is new")
		}
		changes = append(changes, limitChanges("plan "+strconv.Quote(name)+": ", p.lists().named(was), p.lists().named(next.Plans[name]))...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
		if _, kept := next.Plans[name]; !kept {
			changes = append(changes, "plan "+strconv.Quote(name)+": removed")
		}
	}
	if text := overrideChanges(p.Overrides, next.Overrides); text != "" {
		changes = append(changes, "overrides: "+text)
	}
	if text := blockChanges(p.Blocked, next.Blocked); text != "" {
		changes = append(changes, "blocked: "+text)
	}
	changed("OnFailure", next.OnFailure, p.OnFailure)
	changed("LocalShare", next.share(), p.share())
	changed("Shadow", next.Shadow, p.Shadow)
	changed("Headers", next.Headers, p.Headers)
	return changes
}

// limitChanges returns how limits differ from those before, each with prefix in front. All have names.
func limitChanges(prefix string, before, after []Limit) (changes []string) {
	for _, l := range after {
		i := slices.IndexFunc(before, l.sameName)
		switch field := prefix + "limit " + strconv.Quote(l.Name) + ": " + l.unnamed(); {
		case i < 0:
			changes = append(changes, field+", is new")
		case !l.same(before[i]):
			changes = append(changes, field+", was "+before[i].unnamed())
		}
	}
	for _, l := range before {
		if !slices.ContainsFunc(after, l.sameName) {
			changes = append(changes, prefix+"limit "+strconv.Quote(l.Name)+": removed, was "+l.unnamed())
		}
	}
	if len(changes) == 0 && !slices.EqualFunc(before, after, Limit.sameName) {
		changes = append(changes, prefix+"limits: in another order")
	}
	return changes
}

// same reports whether l and other are the same limit. Their Locations may have been loaded separately.
func (l Limit) same(other Limit) bool {
	if l.Location != nil && other.Location != nil && l.Location.String() == other.Location.String() {
		l.Location, other.Location = nil, nil
	}
	return l == other
}

// unnamed is l's text without its name.
func (l Limit) unnamed() string {
	l.Name = ""
	return l.String()
}

// blockChanges counts the keys that one list has and the other has not, or returns "".
func blockChanges(before, now []string) string {
	missing := func(from, in []string) (n int) {
		for _, key := range in {
			if !slices.Contains(from, key) {
				n++
			}
		}
		return n
	}
	added, removed := missing(before, now), missing(now, before)
	if added+removed == 0 {
		return ""
	}
	return fmt.Sprintf("%d added, %d removed", added, removed)
}

// overrideChanges counts the overrides that differ, or returns "".
func overrideChanges(before, now map[string][]Limit) string {
	added, removed, changed := 0, 0, 0
	for key, limits := range now {
		switch was, known := before[key]; {
		case !known:
			added++
		case !slices.EqualFunc(limits, was, Limit.same):
			changed++
		}
	}
	for key := range before {
		if _, known := now[key]; !known {
			removed++
		}
	}
	if added+removed+changed == 0 {
		return ""
	}
	return fmt.Sprintf("%d added, %d removed, %d changed", added, removed, changed)
}
