package limit

import (
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// MaxLimits bounds how many limits a policy has, because every decision
// computes each of them.
const MaxLimits = 64

// ListMistakes returns what is wrong with the limits of a policy. list is how
// the caller writes the list of limits.
func ListMistakes(policy string, limits []Limit, list string) []error {
	errs := OverrideMistakes(policy, limits, list)
	for i, l := range limits {
		if l.Times != 0 {
			errs = append(errs, mistake.New(list+"["+strconv.Itoa(i)+"].Times", l.Times, "multiplies a limit, so it is for overrides: write the limit itself"))
		}
	}
	return errs
}

// OverrideMistakes is ListMistakes for the limits of an override, of which some
// may multiply others.
func OverrideMistakes(policy string, limits []Limit, list string) []error {
	if len(limits) == 0 {
		return []error{mistake.New(list, len(limits), "limits: at least one is required")}
	}
	if len(limits) > MaxLimits {
		return []error{mistake.New(list, len(limits), "limits: at most "+strconv.Itoa(MaxLimits)+" can hold together")}
	}
	var errs []error
	names := make(map[string]int)
	for i, l := range limits {
		element := list + "[" + strconv.Itoa(i) + "]."
		errs = append(errs, l.Mistakes(element)...)
		if l.Name == "" && l.Times == 0 { // it gets a name of its own
			continue
		}
		first, taken := names[l.Name]
		switch at := mistake.Hidden(list + "[" + strconv.Itoa(first) + "]"); {
		case !taken:
			names[l.Name] = i
		case l.Name == "":
			errs = append(errs, mistake.New(element+"Times", l.Times, "multiplies all limits, as "+at+" does already"))
		default:
			errs = append(errs, mistake.New(element+"Name", l.Name, "is the name of "+at+" already: give each limit a name of its own"))
		}
	}
	tags := make(map[uint32]string)
	for i, name := range Names(policy, limits) {
		if limits[i].Times != 0 {
			continue
		}
		tag := bucket.TagOf(name, limits[i].Mode)
		if other, taken := tags[tag]; taken && other != name || tag == 0 {
			errs = append(errs, mistake.New(list+"["+strconv.Itoa(i)+"].Name", name,
				"has the same hash as "+strconv.Quote(other)+", and stores identify limits by that hash: choose another name"))
		}
		tags[tag] = name
	}
	return errs
}

// Names returns the names that identify limits in headers and in stored state.
// A limit without a name gets one: a sole limit its policy's name, each of
// several the policy's name and its interval. What multiplies limits gets none.
func Names(policy string, limits []Limit) []string {
	names, taken, several := make([]string, len(limits)), make(map[string]bool), -1
	for _, l := range limits {
		if taken[l.Name] = true; l.Times == 0 {
			several++
		}
	}
	for i, l := range limits {
		if names[i] = l.Name; l.Name != "" || l.Times != 0 {
			continue
		}
		name := policy
		if several > 0 {
			if l.Mode == bucket.Concurrent {
				name += "-at-once"
			} else {
				name += "-" + shortDuration(l.RefillInterval)
			}
			if l.OtherUnit() {
				name += "-" + l.Unit
			}
		}
		names[i] = name
		for n := 2; taken[names[i]]; n++ { // two limits of the same interval
			names[i] = name + "-" + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}

// shortDuration formats d as people write it: 1m for 1m0s. It is ASCII, because
// names are sent in header fields.
func shortDuration(d time.Duration) string {
	if d%bucket.Month == 0 {
		return quantity.FormatInterval(d)
	}
	s := strings.Replace(d.String(), "µ", "u", 1)
	for _, zero := range [...]string{"m0s", "h0m"} {
		if n := len(s) - len(zero); n > 0 && s[n:] == zero {
			s = s[:n+1]
		}
	}
	return s
}
