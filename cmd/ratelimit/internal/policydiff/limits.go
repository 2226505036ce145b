package policydiff

import (
	"fmt"
	"slices"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// limits compares two lists of limits, which have names. at says whose they
// are.
func (c *comparison) limits(at Change, was, is []core.Limit) {
	for _, l := range is {
		if i := slices.IndexFunc(was, func(other core.Limit) bool { return sameBucket(l, other) }); i >= 0 {
			c.limit(at, was[i], l)
		}
	}
	gone, come := without(was, is), without(is, was)
	for _, l := range gone {
		i := successor(l, come)
		if i < 0 && len(gone) == 1 && len(come) == 1 {
			i = 0
		}
		change := at
		change.Limit, change.Old = l.Name, shape(l)
		if i < 0 {
			change.Effect, change.Text = Remove, "is gone, was "+shape(l)+": it denies nothing any more"
			c.add(change)
			continue
		}
		to := come[i]
		come = slices.Delete(come, i, i+1)
		change.Effect, change.New = Rename, shape(to)
		change.Text = renamed(l, to)
		c.add(change)
	}
	for _, l := range come {
		change := at
		change.Effect, change.Limit, change.New = New, l.Name, shape(l)
		change.Text = "is new: " + shape(l) + ". All clients start with a full bucket"
		c.add(change)
	}
}

// successor returns the index of the limit that probably replaces l: the one of
// the same text, or else the only one of the same interval, mode and unit. It
// is -1 if there is none.
func successor(l core.Limit, list []core.Limit) int {
	if i := slices.IndexFunc(list, func(other core.Limit) bool { return sameShape(l, other) }); i >= 0 {
		return i
	}
	found := -1
	for i, other := range list {
		if l.RefillInterval == other.RefillInterval && l.Mode == other.Mode && l.Unit == other.Unit {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// renamed says that a bucket has another name.
func renamed(from, to core.Limit) string {
	text := fmt.Sprintf("its bucket is %s now: all clients start with a full one, and what they have used is forgotten.", to.Name)
	if from.Name == to.Name {
		text = "slots and tokens are buckets of their own: all clients start with a full one, and what they have used is forgotten."
	}
	if !sameShape(from, to) {
		text += fmt.Sprintf(" It is %s, was %s.", shape(to), shape(from))
	}
	if from.Name != to.Name {
		text += fmt.Sprintf(" To keep the bucket, give the limit the name %s", from.Name)
	}
	return text
}

// without returns the limits of list whose buckets are not among those of
// others.
func without(list, others []core.Limit) (rest []core.Limit) {
	for _, l := range list {
		if !slices.ContainsFunc(others, func(other core.Limit) bool { return sameBucket(l, other) }) {
			rest = append(rest, l)
		}
	}
	return rest
}

// sameBucket reports whether two limits of a policy are one bucket.
func sameBucket(a, b core.Limit) bool {
	return a.Name == b.Name && (a.Mode == core.Concurrent) == (b.Mode == core.Concurrent)
}

// shape is a limit without its name, as text.
func shape(l core.Limit) string {
	l.Name = ""
	return l.String()
}

func sameShape(a, b core.Limit) bool { return shape(a) == shape(b) }

func same(a, b core.Limit) bool { return a.Name == b.Name && sameShape(a, b) }

func sameShapes(a, b []core.Limit) bool { return slices.EqualFunc(a, b, sameShape) }

// limit compares two limits that are one bucket.
func (c *comparison) limit(at Change, was, is core.Limit) {
	if sameShape(was, is) {
		return
	}
	at.Limit, at.Old, at.New = is.Name, shape(was), shape(is)
	prefix := fmt.Sprintf("%s, was %s: ", shape(is), shape(was))
	add := func(effect, format string, args ...any) {
		at.Effect, at.Text = effect, prefix+fmt.Sprintf(format, args...)
		c.add(at)
	}
	before := len(c.changes)
	switch used := was.Capacity - was.Capacity/10*3; {
	case is.Capacity < was.Capacity:
		add(Cut, "what was used stays used. A client that has used %s of %s had %s left, and has %s", show.Count(used), show.Count(was.Capacity),
			show.Count(was.Capacity-used), show.Count(max(0, is.Capacity-used)))
	case is.Capacity > was.Capacity:
		add(Raise, "%s more at once, also for clients that are denied now", show.Count(is.Capacity-was.Capacity))
	}
	if is.Mode != core.Concurrent && was.RefillInterval > 0 && is.RefillInterval > 0 {
		faster := is.RefillRate * float64(was.RefillInterval) / (was.RefillRate * float64(is.RefillInterval))
		switch {
		case faster > 1+1e-9:
			add(Raise, "tokens come back %.3g times as fast, from a client's next request on", faster)
		case faster < 1-1e-9:
			add(Cut, "tokens come back at %.3g of the rate, from a client's next request on", faster)
		}
	}
	if was.Mode != is.Mode || was.RefillInterval != is.RefillInterval || place(was) != place(is) || !was.Anchor.Equal(is.Anchor) {
		add(Other, "tokens come back at other times. While both are in use, a window can have the refill of both")
	}
	if was.Unit != is.Unit {
		add(Other, "it counts something else, in the same bucket: tokens used of the one are used of the other")
	}
	if was.MaxHold != is.MaxHold {
		add(Other, "what requests hold comes back after another time")
	}
	if len(c.changes) == before {
		add(Other, "it is written in another way")
	}
}

// place is the name of a limit's time zone.
func place(l core.Limit) string {
	if l.Location == nil {
		return ""
	}
	return l.Location.String()
}
