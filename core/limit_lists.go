package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// limitLists are the limits of a policy and of its plans. Names tie them, and the limits of overrides, to buckets.
type limitLists struct {
	policy string
	own    []Limit
	plans  map[string][]Limit
}

// merged returns the limits of a key with an override, each with a name. base are those that the request has without it: of its
// plan, of WithLimits or of the policy. A limit of the override replaces that of its name. One whose name base lacks, though the
// policy or another plan has it, is added: an exception must not be without effect because a customer has another plan.
func (p limitLists) merged(base, override []Limit) []Limit {
	limits, override := p.named(base), p.namedOverride(override)
	for i, l := range limits {
		if named := slices.IndexFunc(override, l.sameName); named >= 0 {
			limits[i] = override[named].over(l)
		} else if all := slices.IndexFunc(override, Limit{}.sameName); all >= 0 {
			limits[i] = override[all].over(l)
		}
	}
	for _, l := range override {
		if l.Times == 0 && len(limits) < limit.MaxLimits && !slices.ContainsFunc(limits, l.sameName) {
			limits = append(limits, l)
		}
	}
	return limits
}

// over returns what an override's limit makes of another.
func (l Limit) over(other Limit) Limit {
	if l.Times == 0 {
		return l
	}
	return Limit(other.plain().Scale(l.Times))
}

// named returns limits of the policy, each with a name.
func (p limitLists) named(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i, name := range limit.Names(p.policy, each(limits, Limit.plain)) {
		limits[i].Name = name
	}
	return limits
}

// namedOverride is named for the limits of an override, which may be fewer than those of the policy: a limit without a name gets the
// one that it would have among the policy's. One that multiplies all has none.
func (p limitLists) namedOverride(limits []Limit) []Limit {
	if len(p.own) > 1 {
		return p.named(append(slices.Clone(limits), Limit{Name: "another", Capacity: 1}))[:len(limits)]
	}
	return p.named(limits)
}

// limitNames returns the names of all limits of the policy and its plans.
func (p limitLists) limitNames() (names []string) {
	for _, limits := range append([][]Limit{p.own}, p.planLists()...) {
		for _, l := range p.named(limits) {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	return names
}

// planLists returns the limits of the plans, in the order of the plans' names.
func (p limitLists) planLists() (lists [][]Limit) {
	for _, name := range slices.Sorted(maps.Keys(p.plans)) {
		lists = append(lists, p.plans[name])
	}
	return lists
}

// planMistakes returns what is wrong with the policy's plans.
func (p limitLists) planMistakes() (errs []error) {
	own := p.named(p.own)
	for _, name := range slices.Sorted(maps.Keys(p.plans)) {
		field, limits := "Policy.Plans."+printable.Clip(name, limit.MaxName), p.plans[name]
		if name == "" {
			errs = append(errs, mistake.New("Policy.Plans", name, "has an empty name, which stands for the policy's own limits"))
		} else if reason := limit.BadName(name); reason != "" {
			errs = append(errs, mistake.New("Policy.Plans", name, reason))
		}
		errs = append(errs, limit.ListMistakes(p.policy, each(limits, Limit.plain), field)...)
		for i, l := range p.named(limits) {
			if limits[i].Name == "" && l.Times == 0 && !slices.ContainsFunc(own, l.sameName) {
				errs = append(errs, mistake.New(field+"["+strconv.Itoa(i)+"].Name", "",
					"would be "+strconv.Quote(l.Name)+", and no limit of the policy has that name, so both would count for themselves: name the limits of policy and plan"))
			}
		}
	}
	return errs
}

// overrideMistakes returns what is wrong with overrides of the policy, whose field is given.
func (p limitLists) overrideMistakes(field string, overrides map[string][]Limit) (errs []error) {
	if len(overrides) == 0 {
		return nil
	}
	names := p.limitNames()
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		limits, at := overrides[key], field+"."+printable.Clip(key, limit.MaxName)
		wrong := limit.OverrideMistakes(p.policy, each(limits, Limit.plain), at)
		if errs = append(errs, wrong...); key == "" {
			errs = append(errs, mistake.New(field, key, "has an empty key, which no request can have"))
		}
		if len(wrong) > 0 || len(p.own) == 0 {
			continue
		}
		for i, l := range p.namedOverride(limits) {
			if !slices.Contains(names, l.Name) && !l.sameName(Limit{}) {
				errs = append(errs, mistake.New(at+"["+strconv.Itoa(i)+"].Name", limits[i].Name, unmet(l.Name, limits[i].Name == "", names)))
			}
		}
	}
	return errs
}

// noPlan is the error for a plan that a policy lacks. Middleware gets it for each request of such a plan, so it has no text until that is read.
type noPlan struct {
	lists *limitLists
	name  string
}

func (e *noPlan) Error() string {
	return fmt.Sprintf("ratelimit: policy %q: %v", e.lists.policy, e.Unwrap())
}

func (e *noPlan) Unwrap() error {
	return mistake.New("WithPlan", e.name, "is no plan of the policy: "+e.lists.plansText())
}

// plansText says which plans there are.
func (p limitLists) plansText() string {
	if len(p.plans) == 0 {
		return "it has no Plans"
	}
	return "it has " + quotedList(slices.Sorted(maps.Keys(p.plans)))
}

// unmet is why an override can't have a limit of this name. auto says that the limit was given none.
func unmet(name string, auto bool, names []string) string {
	list := quotedList(names)
	if auto {
		return "would be " + strconv.Quote(name) + ", which is no limit of the policy and its plans: say which of them it replaces, " + list
	}
	return "is no limit of the policy and its plans: name the one that it replaces, " + list
}

// quotedList returns names in quotes, with commas between them.
func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

// sameName reports whether l and other, which have names, have the same.
func (l Limit) sameName(other Limit) bool { return l.Name == other.Name }
