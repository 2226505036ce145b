// Package policydiff says what a change of policies does to buckets, in words.
package policydiff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Compare returns what differs between policies, by policy. shown is how keys
// of overrides are printed. Both must be valid.
func Compare(before, after map[string]core.Policy, shown func(key string) string) ([]Change, error) {
	c := comparison{shown: shown}
	old, err := named(before)
	if err != nil {
		return nil, err
	}
	now, err := named(after)
	if err != nil {
		return nil, err
	}
	renamed := renames(old, now)
	all := maps.Clone(old)
	maps.Copy(all, now)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, existed := old[name]
		is, exists := now[name]
		to, moved := renamed[name]
		switch {
		case existed && exists:
			c.policy(was, is)
		case moved:
			c.add(Change{Effect: Rename, Policy: name, New: to, Text: fmt.Sprintf("is %s now, with the same limits: no bucket of the old name is read any more, and all clients start with full ones. "+
				"What they have used is forgotten, and dashboards and alerts lose the name", to)})
		case existed:
			c.add(Change{Effect: Remove, Policy: name, Old: list(was.Limits), Text: "is gone: a service that looks it up finds no policy, and does not start or reload"})
		case slices.Contains(slices.Collect(maps.Values(renamed)), name): // told at its old name
		default:
			c.add(Change{Effect: New, Policy: name, New: list(is.Limits), Text: "is new: " + list(is.Limits)})
		}
	}
	return c.changes, nil
}

// named returns policies with the names of all limits.
func named(policies map[string]core.Policy) (map[string]core.Policy, error) {
	all := make(map[string]core.Policy)
	for name, p := range policies {
		withNames, err := replay.WithNames(p)
		if err != nil {
			return nil, err
		}
		all[name] = withNames
	}
	return all, nil
}

// renames returns the new names of policies that are gone: of a new policy that
// has the same limits, if there is just one.
func renames(old, now map[string]core.Policy) map[string]string {
	renamed := make(map[string]string)
	taken := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, stays := now[name]; stays {
			continue
		}
		var same []string
		for other, p := range now {
			if _, known := old[other]; !known && !taken[other] && sameShapes(old[name].Limits, p.Limits) {
				same = append(same, other)
			}
		}
		if len(same) == 1 {
			renamed[name], taken[same[0]] = same[0], true
		}
	}
	return renamed
}

// policy compares two policies of one name.
func (c *comparison) policy(was, is core.Policy) {
	c.limits(Change{Policy: was.Name}, was.Limits, is.Limits)
	c.plans(was, is)
	keys := maps.Clone(was.Overrides)
	maps.Copy(keys, is.Overrides)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, had := was.Overrides[key]
		after, has := is.Overrides[key]
		if had && has || !slices.EqualFunc(or(had, before, was.Limits), or(has, after, is.Limits), same) {
			c.limits(Change{Policy: was.Name, Key: c.shown(key)}, or(had, before, was.Limits), or(has, after, is.Limits))
		}
		switch {
		case had && !has:
			c.add(Change{Effect: Other, Policy: was.Name, Key: c.shown(key), Old: list(before), Text: "its override is gone: the limits of the policy hold for it"})
		case has && !had:
			c.add(Change{Effect: Other, Policy: was.Name, Key: c.shown(key), New: list(after), Text: "has an override now: " + list(after)})
		}
	}
	c.rest(was, is)
}

// plans compares the plans of two policies of one name.
func (c *comparison) plans(was, is core.Policy) {
	all := maps.Clone(was.Plans)
	maps.Copy(all, is.Plans)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := Change{Policy: was.Name, Plan: name}
		before, had := was.Plans[name]
		after, has := is.Plans[name]
		if had {
			c.limits(at, before, or(has, after, is.Limits))
		}
		switch {
		case !has:
			at.Effect, at.Old, at.Text = Remove, list(before), "is gone: its customers have the limits of the policy, and a warning is logged (RL720)"
			c.add(at)
		case !had:
			at.Effect, at.New, at.Text = New, list(after), "is new: "+list(after)
			c.add(at)
		}
	}
}

func or(has bool, own, others []core.Limit) []core.Limit {
	if has {
		return own
	}
	return others
}

// rest compares what is not limits.
func (c *comparison) rest(was, is core.Policy) {
	add := func(before, after any, text string) {
		if before != after {
			c.add(Change{Effect: Other, Policy: is.Name, Old: fmt.Sprint(before), New: fmt.Sprint(after), Text: fmt.Sprintf("%s: %v, was %v", text, after, before)})
		}
	}
	for _, key := range slices.Sorted(slices.Values(is.Blocked)) {
		if !slices.Contains(was.Blocked, key) {
			c.add(Change{Effect: Cut, Policy: is.Name, Key: c.shown(key), New: "blocked", Text: "is blocked: its requests are denied"})
		}
	}
	for _, key := range slices.Sorted(slices.Values(was.Blocked)) {
		if !slices.Contains(is.Blocked, key) {
			c.add(Change{Effect: Raise, Policy: is.Name, Key: c.shown(key), Old: "blocked", Text: "is no longer blocked: what it had left is there"})
		}
	}
	switch {
	case was.Shadow && !is.Shadow:
		c.add(Change{Effect: Cut, Policy: is.Name, Old: "shadow", Text: "is enforced from now on: what was only reported is denied, also to clients that have used up their buckets in shadow mode"})
	case !was.Shadow && is.Shadow:
		c.add(Change{Effect: Raise, Policy: is.Name, New: "shadow", Text: "is in shadow mode from now on: it denies nothing, and sends no header fields"})
	}
	add(was.OnFailure, is.OnFailure, "on_failure")
	add(share(was), share(is), "local_share")
	if was.Headers != is.Headers {
		c.add(Change{Effect: Other, Policy: is.Name, Text: "other header fields are sent"})
	}
}

func share(p core.Policy) float64 {
	if p.LocalShare == 0 {
		return 1
	}
	return p.LocalShare
}

// list is limits as text.
func list(limits []core.Limit) string {
	var texts []string
	for _, l := range limits {
		l.Name = ""
		texts = append(texts, l.String())
	}
	return strings.Join(texts, ", ")
}
