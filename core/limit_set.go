package core

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// limitSet is checked, named limits as integers. Only blocked changes.
type limitSet struct {
	*bucket.LimitSet

	class     *store.Class // of the policy's keys
	given     []Limit      // as configured
	limits    []Limit      // as configured, each with a name
	units     []string     // what each of limits counts
	texts     *headerTexts
	limited   bool             // one of the limits counts requests
	use       *unitUse         // nil if all limits count requests
	slots     *bucket.LimitSet // those of limits that are slots; nil: there are none
	estimates bool             // some limits hold estimates
	beyond    *[]int64         // of a blocked key: what each request asks of each limit, which is more than any can hold; else nil

	blocked atomic.Pointer[limitSet] // see denying; nil: nobody needs it yet
}

// newLimitSet returns the set of limits without mistakes.
func newLimitSet(policy string, limits []Limit) *limitSet {
	p := &limitSet{given: slices.Clone(limits), limits: slices.Clone(limits), units: make([]string, len(limits))}
	rates := make([]bucket.Rate, len(limits))
	for i, name := range namesOf(policy, limits) {
		name = strings.Clone(name) // it may be a view of a buffer that its owner reuses
		if p.given[i].Name != "" {
			p.given[i].Name = name
		}
		p.limits[i].Name = name
		rates[i], p.units[i] = bucket.NewRate(limits[i].spec(), bucket.TagOf(name, bucket.Mode(limits[i].Mode))), strings.Clone(limits[i].unitName())
	}
	p.LimitSet = bucket.NewLimitSet(rates)
	p.limited = p.LeastCapacity() > 0
	p.slots = p.Of(func(r *bucket.Rate) bool { return r.Slots })
	p.estimates = slices.ContainsFunc(rates, func(r bucket.Rate) bool { return r.Hold > 0 && !r.Slots })
	p.use = newUnitUse(p.units)
	p.class = store.NewClass(policy, p.LimitSet)
	p.texts = newHeaderTexts(p.limits)
	return p
}

// block has p deny all requests, as if each asked for more than fits.
func (p *limitSet) block() {
	beyond := make([]int64, len(p.Rates))
	for i := range beyond {
		beyond[i] = p.Rates[i].Capacity + 1
	}
	p.beyond = &beyond
}

// denying returns the limits of keys with p's limits that an exception blocks.
func (p *limitSet) denying() *limitSet {
	if p.beyond != nil {
		return p
	}
	if p.blocked.Load() == nil {
		d := &limitSet{
			LimitSet: bucket.NewLimitSet(p.Rates), class: p.class, given: p.given, limits: p.limits, units: p.units, texts: p.texts,
			limited: p.limited, slots: p.slots, estimates: p.estimates,
		}
		d.block()
		p.blocked.CompareAndSwap(nil, d)
	}
	return p.blocked.Load()
}

// counts reports whether a limit of p counts a unit.
func (p *limitSet) counts(unit string) bool {
	return slices.Contains(p.units, unit)
}

// each is what u takes from each limit of p.
func (u Units) each(p *limitSet) *[]int64 {
	list := make([]int64, len(p.limits))
	for i, unit := range p.units {
		if unit == Requests {
			list[i] = u.requests()
		} else {
			list[i] = u[unit]
		}
	}
	return &list
}

// ones is one token of each limit; nil, which says the same of limits that all
// count requests.
func (p *limitSet) ones() *[]int64 {
	if !slices.ContainsFunc(p.units, func(unit string) bool { return unit != Requests }) {
		return nil
	}
	list := slices.Repeat([]int64{1}, len(p.units))
	return &list
}

// maxSets bounds how many sets a setCache holds. A service has a few tiers.
// One that computes new limits for each request still gets correct decisions,
// but each of them costs making a set.
const maxSets = 1024

// setCache remembers the sets of limits that were given to WithLimits, all
// scaled by the same share. The zero value is ready for use. It is safe for
// concurrent use.
type setCache struct {
	mu    sync.RWMutex           // guards everything below
	sets  map[uint64][]cachedSet // by a hash of the limits
	count int                    // how many sets, under all hashes
}

type cachedSet struct {
	limits []Limit // as given
	set    *limitSet
}

var setSeed = maphash.MakeSeed()

// checked is get for limits that may have mistakes, or returns those.
func (c *setCache) checked(policy string, limits []Limit, share float64) (*limitSet, []error) {
	return c.find(policy, limits, share, true)
}

// get returns the set of limits scaled by share. It allocates for a new list.
func (c *setCache) get(policy string, limits []Limit, share float64) *limitSet {
	p, _ := c.find(policy, limits, share, false)
	return p
}

func (c *setCache) find(policy string, limits []Limit, share float64, check bool) (*limitSet, []error) {
	var h maphash.Hash
	h.SetSeed(setSeed)
	for i := range limits {
		maphash.WriteComparable(&h, limits[i])
	}
	sum := h.Sum64()

	c.mu.RLock()
	for _, cached := range c.sets[sum] {
		if slices.Equal(cached.limits, limits) {
			c.mu.RUnlock()
			return cached.set, nil
		}
	}
	c.mu.RUnlock()

	if check {
		if errs := listMistakes(policy, limits, "WithLimits"); len(errs) > 0 {
			return nil, errs
		}
	}
	limits = slices.Clone(limits)
	for i := range limits { // they may be views of a buffer that its owner reuses
		limits[i].Name, limits[i].Unit = strings.Clone(limits[i].Name), strings.Clone(limits[i].Unit)
	}
	p := newLimitSet(policy, scaled(limits, share))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= maxSets || c.sets == nil {
		c.sets, c.count = make(map[uint64][]cachedSet), 0
	}
	for _, cached := range c.sets[sum] { // another goroutine may have added it meanwhile
		if slices.Equal(cached.limits, limits) {
			return cached.set, nil
		}
	}
	c.sets[sum] = append(c.sets[sum], cachedSet{limits, p})
	c.count++
	return p, nil
}

// keySets are the limits of keys that are blocked or have limits of their own,
// by key as stores have it.
type keySets map[string]*ownSets

// ownSets are the limits of one key.
type ownSets struct {
	set   *limitSet
	local *limitSet // nil where compiled.localSet is
}

// count reports whether a limit of one of the keys counts a unit.
func (k keySets) count(unit string) bool {
	for _, own := range k {
		if own.set.counts(unit) {
			return true
		}
	}
	return false
}

// keySets returns the sets of keys with these limits under p: those of before
// where the limits are the same. local says whether the fallback needs sets
// too.
func (p *Policy) keySets(limitsOf map[string][]Limit, local bool, before keySets) keySets {
	if len(limitsOf) == 0 {
		return nil
	}
	sets := make(keySets, len(limitsOf))
	for key, limits := range limitsOf {
		own := before[key]
		if own == nil || !slices.EqualFunc(own.set.given, limits, Limit.same) {
			own = p.ownSets(limits, local)
		}
		sets[key] = own
	}
	return sets
}

// ownSets returns the limits of a key that has these limits under p.
func (p *Policy) ownSets(limits []Limit, local bool) *ownSets {
	own := &ownSets{set: newLimitSet(p.Name, limits)}
	if local {
		own.local = newLimitSet(p.Name, scaled(limits, p.LocalShare))
	}
	return own
}

// limitLists are a policy's limits and its plans': names tie them to buckets.
type limitLists struct {
	policy string
	own    []Limit
	plans  map[string][]Limit
}

// merged returns the limits of a key with an override, each with a name. base
// are those that the request has without it: of its plan, of WithLimits or of
// the policy. A limit of the override replaces that of its name. One whose name
// base lacks, though the policy or another plan has it, is added: an exception
// must not be without effect because a customer has another plan.
func (p limitLists) merged(base, override []Limit) []Limit {
	limits, override := p.named(base), p.namedOverride(override)
	for i, l := range limits {
		if named := slices.IndexFunc(override, l.sameName); named >= 0 {
			limits[i] = override[named]
		}
	}
	for _, l := range override {
		if len(limits) < maxLimits && !slices.ContainsFunc(limits, l.sameName) {
			limits = append(limits, l)
		}
	}
	return limits
}

// named returns limits of the policy, each with a name.
func (p limitLists) named(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i, name := range namesOf(p.policy, limits) {
		limits[i].Name = name
	}
	return limits
}

// namedOverride is named for the limits of an override, which may be fewer than
// those of the policy: a limit without a name gets the one that it would have
// among the policy's.
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
		field, limits := "Policy.Plans."+printable.Clip(name, maxName), p.plans[name]
		if name == "" {
			errs = append(errs, configError("Policy.Plans", name, "has an empty name, which stands for the policy's own limits"))
		} else if reason := badName(name); reason != "" {
			errs = append(errs, configError("Policy.Plans", name, reason))
		}
		errs = append(errs, listMistakes(p.policy, limits, field)...)
		for i, l := range p.named(limits) {
			if limits[i].Name == "" && !slices.ContainsFunc(own, l.sameName) {
				errs = append(errs, configError(field+"["+strconv.Itoa(i)+"].Name", "",
					"would be "+strconv.Quote(l.Name)+", and no limit of the policy has that name, so both would count for themselves: name the limits of policy and plan"))
			}
		}
	}
	return errs
}

// overrideMistakes returns what is wrong with overrides, at field.
func (p limitLists) overrideMistakes(field string, overrides map[string][]Limit) (errs []error) {
	if len(overrides) == 0 {
		return nil
	}
	names := p.limitNames()
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		limits, at := overrides[key], field+"."+printable.Clip(key, maxName)
		wrong := listMistakes(p.policy, limits, at)
		if errs = append(errs, wrong...); key == "" {
			errs = append(errs, configError(field, key, "has an empty key, which no request can have"))
		}
		if len(wrong) > 0 || len(p.own) == 0 {
			continue
		}
		for i, l := range p.namedOverride(limits) {
			if !slices.Contains(names, l.Name) {
				errs = append(errs, configError(at+"["+strconv.Itoa(i)+"].Name", limits[i].Name, unmet(l.Name, limits[i].Name == "", names)))
			}
		}
	}
	return errs
}

// noPlan is the error for a plan that a policy lacks. Middleware gets it for
// each request of such a plan, so it has no text until that is read.
type noPlan struct {
	lists *limitLists
	name  string
}

func (e *noPlan) Error() string {
	return fmt.Sprintf("ratelimit: policy %q: %v", e.lists.policy, e.Unwrap())
}

func (e *noPlan) Unwrap() error {
	return configError("WithPlan", e.name, "is no plan of the policy: "+e.lists.plansText())
}

// plansText says which plans there are.
func (p limitLists) plansText() string {
	if len(p.plans) == 0 {
		return "it has no Plans"
	}
	return "it has " + quotedList(slices.Sorted(maps.Keys(p.plans)))
}

// unmet is why an override can't have this name; auto: it was given none.
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
