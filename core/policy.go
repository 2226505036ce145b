package core

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/enum"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Policy is a named set of limits that hold together: a request is allowed only
// if every limit has enough tokens. It takes tokens from all limits or from
// none.
//
// In JSON and in the files of package policyfile its fields have the names of
// their tags, and a limit is a text that [ParseLimit] reads. encoding/json
// checks no more than that: see [Policy.Validate].
type Policy struct {
	// Name identifies the policy's buckets in a store, and is part of header
	// fields. It is required: printable ASCII, at most 128 bytes. Limiters with
	// the same name and store share the buckets of a key.
	Name string `json:"name"`

	// Limits are decided together, in one atomic step: at least one, at most
	// 64.
	Limits []Limit `json:"limits"`

	// Plans are named lists of limits, such as those that customers pay for:
	// [Limiter.WithPlan] and the middleware's WithPlan choose one for a
	// request. A limit of a plan and one of Limits are the same bucket if they
	// have the same name: a customer who changes the plan keeps what was used.
	// A plan's limit without a name must get one that Limits have, as
	// [Limit.Name] describes. A plan's name is printable ASCII, at most 128
	// bytes.
	Plans map[string][]Limit `json:"plans,omitempty"`

	// Overrides are other limits for some keys, such as those of a customer who
	// got an exception. A key is what the key function returns, such as
	// "x-api-key:ann" of ByHeader("X-Api-Key"): see [Limiter.Peek]. An override
	// replaces the limits that it names, and leaves the others as the request's
	// plan has them, or WithLimits, or else Limits. A name that neither Limits
	// nor Plans have is a mistake. One that only the request's plan lacks is
	// added, up to 64 in all.
	//
	// A limit without a name replaces the one whose name it would get among
	// Limits: see [Limit.Name]. What the override adds to the Capacity is there
	// at once, also for a key that was denied a moment ago, and while processes
	// without the override decide the key too. Change overrides with SetPolicy.
	Overrides map[string][]Limit `json:"overrides,omitempty"`

	// Blocked are keys whose requests are denied, also if the store can't
	// answer: their RetryAfter is [Never]. What a key has left stays. A request
	// that asks for nothing that the policy counts still passes. Change them
	// with SetPolicy. Blocked comes before Overrides.
	Blocked []string `json:"blocked,omitempty"`

	// OnFailure is how the limiter decides while the store can't answer. The
	// zero value is FailLocal.
	OnFailure FailureMode `json:"on_failure,omitzero"`

	// LocalShare is the fraction of each limit that this process grants on its
	// own under FailLocal: above 0, at most 1. With n replicas behind one load
	// balancer, 1/n keeps their sum at the limit. The zero value means 1.
	// Capacities are rounded down, but every limit grants at least one token.
	LocalShare float64 `json:"local_share,omitzero"`

	// Shadow is for trying out a limit. The limiter decides, takes tokens and
	// reports, but denies no request: results are Allowed, and ShadowDenied
	// marks requests that would have been denied. It sends no header fields and
	// makes no caller wait. Middleware lets a request pass even if it has no
	// key, the store can't answer, or its context has ended.
	Shadow bool `json:"shadow,omitzero"`

	// Headers is the set of header fields sent with every response. The zero
	// value is HeadersDefault.
	Headers HeaderStyle `json:"headers,omitzero"`
}

// Validate returns nil if [NewLimiter] accepts p, or an error that joins a
// [ConfigError] for every mistake, as NewLimiter reports them.
func (p Policy) Validate() error { return p.refusal() }

// refusal is the error for the mistakes in p and others, or nil.
func (p Policy) refusal(others ...error) error {
	errs := append(p.mistakes(), others...)
	errs = append(errs, p.limitMistakes()...)
	switch {
	case p.isZero(): // a map returns one for a name that it does not hold
		return fmt.Errorf("ratelimit: the policy is empty: if it comes from a map, check the name it is looked up by: %w", errors.Join(errs...))
	case len(errs) > 0:
		return fmt.Errorf("ratelimit: policy %q: %w", printable.Clip(p.Name, maxName), errors.Join(errs...))
	}
	return nil
}

// limitMistakes returns what is wrong with p's limits.
func (p Policy) limitMistakes() []error {
	errs := listMistakes(p.Name, p.Limits, "Policy.Limits")
	errs = append(errs, p.lists().planMistakes()...)
	errs = append(errs, p.lists().overrideMistakes("Policy.Overrides", p.Overrides)...)
	if i := slices.Index(p.Blocked, ""); i >= 0 {
		errs = append(errs, configError("Policy.Blocked["+strconv.Itoa(i)+"]", "", "is an empty key, which no request can have"))
	}
	return errs
}

// lists returns p's limits and those of its plans.
func (p Policy) lists() limitLists { return limitLists{p.Name, p.Limits, p.Plans} }

// isZero reports whether p is the zero Policy.
func (p Policy) isZero() bool {
	return p.Name == "" && p.Limits == nil && p.OnFailure == FailLocal && p.LocalShare == 0 && p.Plans == nil && p.Overrides == nil && p.Blocked == nil && !p.Shadow && p.Headers == HeadersDefault
}

// mistakes returns what is wrong with p, except for its limits.
func (p Policy) mistakes() []error {
	var errs []error
	if reason := badName(p.Name); reason != "" {
		errs = append(errs, configError("Policy.Name", p.Name, reason))
	}
	if !failureModes.Valid(int(p.OnFailure)) {
		errs = append(errs, configError("Policy.OnFailure", p.OnFailure, failureModes.Want()))
	}
	if p.LocalShare < 0 || p.LocalShare > 1 || math.IsNaN(p.LocalShare) {
		errs = append(errs, configError("Policy.LocalShare", p.LocalShare, "must be above 0 and at most 1 (0 means 1)"))
	}
	if !p.Headers.valid() {
		errs = append(errs, configError("Policy.Headers", p.Headers, styles.Want()+"; HeadersNone stands alone, and "+drafts.String()+" can't be combined"))
	}
	return errs
}

// clone returns a copy that shares nothing with p.
func (p Policy) clone() Policy {
	p.Limits, p.Blocked = slices.Clone(p.Limits), slices.Clone(p.Blocked)
	for _, lists := range []*map[string][]Limit{&p.Plans, &p.Overrides} {
		*lists = maps.Clone(*lists)
		for name, limits := range *lists {
			(*lists)[name] = slices.Clone(limits)
		}
	}
	return p
}

// named is a copy of p whose limits have names, but for those of overrides.
func (p Policy) named() Policy {
	c, lists := p.clone(), p.lists()
	c.Limits = lists.named(p.Limits)
	for name, limits := range c.Plans {
		c.Plans[name] = lists.named(limits)
	}
	return c
}

// share is LocalShare with its default.
func (p Policy) share() float64 {
	if p.LocalShare == 0 {
		return 1
	}
	return p.LocalShare
}

// scaled returns share of each limit: what one process grants on its own.
func scaled(limits []Limit, share float64) []Limit {
	local := make([]Limit, len(limits))
	for i, l := range limits {
		if local[i] = l; share > 0 && share < 1 {
			local[i] = l.scaled(share)
		}
	}
	return local
}

// scaled returns the limit of a share of the tokens, its Capacity and its
// RefillRate, as far as a limit can have them. It is at least one token.
func (l Limit) scaled(share float64) Limit {
	capacity := product(float64(l.Capacity), share)
	if nearest := math.Round(capacity); math.Abs(capacity-nearest) < 1e-9*nearest { // a float64 can't hold most shares of 1/n
		capacity = nearest
	}
	l.Capacity = max(1, int64(capacity))
	if l.Mode == Concurrent {
		return l
	}
	// The Capacity may have been rounded up to 1, so keep the bucket filling
	// within bucket.MaxFill.
	slowest := float64(l.Capacity) * (float64(l.RefillInterval) / float64(bucket.MaxFill))
	if l.onCalendar() {
		slowest = max(slowest, float64(l.Capacity)/bucket.MaxPeriods)
	}
	l.RefillRate = max(product(l.RefillRate, share), slowest*(1+1e-12)) // which a float64 may have rounded down
	rate := l.RefillRate
	for ten := 1e9; ten >= 1 && l.Mode != Continuous && !l.spec().Exact(); ten /= 10 { // too many decimals for steps of this Capacity
		l.RefillRate = math.Ceil(rate*ten) / ten
	}
	return l
}

// product is x × y of the decimal fractions that x and y are written as: a
// third of 0.3 is 0.1.
func product(x, y float64) float64 {
	a, _ := new(big.Rat).SetString(numberText(x))
	b, _ := new(big.Rat).SetString(numberText(y))
	f, _ := a.Mul(a, b).Float64()
	return f
}

// FailureMode is how a limiter decides while its store can't answer.
type FailureMode uint8

const (
	// FailLocal decides in this process alone, with buckets that start full,
	// until the store answers again. Then n processes together admit up to n
	// times the limit, or less with LocalShare. It is the default.
	FailLocal FailureMode = iota
	// FailOpen allows every request.
	FailOpen
	// FailClosed decides nothing: Allow returns ErrUnavailable, and HTTP
	// clients get 503, never 429.
	FailClosed
)

// failureModes are the names of failure modes.
var failureModes = enum.Names{Type: "FailureMode", Prefix: "Fail", Of: []string{"Local", "Open", "Closed"}}

// String returns the mode's name in Go, without the package, such as FailLocal.
func (m FailureMode) String() string { return failureModes.Go(int(m)) }

// MarshalText writes local, open or closed, as JSON and policy files have it.
func (m FailureMode) MarshalText() ([]byte, error) {
	if !failureModes.Valid(int(m)) {
		return nil, configError("Policy.OnFailure", m, failureModes.Want())
	}
	return []byte(failureModes.Text(int(m))), nil
}

// UnmarshalText reads what MarshalText writes.
func (m *FailureMode) UnmarshalText(text []byte) error {
	value := failureModes.Value(string(text))
	if value < 0 {
		return configError("Policy.OnFailure", string(text), "must be "+enum.OneOf(failureModes.Texts()))
	}
	*m = FailureMode(value)
	return nil
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

// limitChanges returns how named limits differ, each with prefix in front.
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

// same is equality, also of Locations that were loaded separately.
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

// blockChanges counts the keys that only one list has, or returns "".
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

// Exceptions are limits and blocks of single keys that stand beside a policy,
// such as those that operators set in Redis while services run. An override
// here and one of the policy merge: both replace the limits that they name, and
// this one comes last. Blocked comes before all. Keys are those of clients,
// such as "ip:192.0.2.1". [Limiter.Exceptions] has store.Key of them.
type Exceptions struct {
	// Overrides are other limits for some keys, as those of [Policy].
	Overrides map[string][]Limit

	// Blocked are keys whose requests are denied, as those of [Policy]. A
	// blocked key may have an override too, for the time after the block.
	Blocked []string

	// OverrideNotes and BlockNotes say by key who has set an exception, until
	// when and why, for people who read it. They decide nothing: who calls
	// SetExceptions ends exceptions.
	OverrideNotes, BlockNotes map[string]store.ExceptionNote
}

// clone returns a copy of e with sorted keys, as stores have them.
func (e *Exceptions) clone() *Exceptions {
	c := &Exceptions{Blocked: slices.Clone(e.Blocked)}
	for i, key := range c.Blocked {
		c.Blocked[i] = store.Key(key)
	}
	slices.Sort(c.Blocked)
	c.Blocked = slices.Compact(c.Blocked)
	if e.Overrides != nil {
		c.Overrides = make(map[string][]Limit, len(e.Overrides))
	}
	for key, limits := range e.Overrides {
		c.Overrides[store.Key(key)] = slices.Clone(limits)
	}
	c.OverrideNotes, c.BlockNotes = notesByKey(e.OverrideNotes), notesByKey(e.BlockNotes)
	return c
}

func notesByKey(notes map[string]store.ExceptionNote) map[string]store.ExceptionNote {
	if len(notes) == 0 {
		return nil
	}
	c := make(map[string]store.ExceptionNote, len(notes))
	for key, note := range notes {
		c[store.Key(key)] = note
	}
	return c
}

// sameNotes reports whether e, which may be nil, and next have the same notes.
func (e *Exceptions) sameNotes(next *Exceptions) bool {
	if e == nil {
		e = &Exceptions{}
	}
	return maps.Equal(e.OverrideNotes, next.OverrideNotes) && maps.Equal(e.BlockNotes, next.BlockNotes)
}

// noted reports whether e, which may be nil, has notes.
func (e *Exceptions) noted() bool { return e != nil && len(e.OverrideNotes)+len(e.BlockNotes) > 0 }

// mistakes returns what is wrong with e.
func (e *Exceptions) mistakes(of limitLists) (errs []error) {
	errs = of.overrideMistakes("Exceptions.Overrides", e.Overrides)
	if slices.Contains(e.Blocked, "") {
		errs = append(errs, configError("Exceptions.Blocked", "", "has an empty key, which no request can have"))
	}
	return errs
}

// changesTo returns how next differs from e, in words. Nil are none.
func (e *Exceptions) changesTo(next *Exceptions) (changes []string) {
	if e == nil {
		e = &Exceptions{}
	}
	if text := overrideChanges(e.Overrides, next.Overrides); text != "" {
		changes = append(changes, "overrides beside the policy: "+text)
	}
	if text := blockChanges(e.Blocked, next.Blocked); text != "" {
		changes = append(changes, "blocked beside the policy: "+text)
	}
	return changes
}

// SetExceptions replaces the exceptions from the next decision on, also of
// limiters that [Limiter.WithLimits] has returned. They stay when SetPolicy
// changes the policy. If the error is not nil, nothing has changed: it reports
// every mistake. Changes are logged and passed to observers as those of
// SetPolicy, but only counted, because keys can be personal data. Those of
// exceptions with notes are not logged.
func (l *Limiter) SetExceptions(e Exceptions) error {
	if l.base != nil {
		return l.base.SetExceptions(e)
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	now := l.current()
	given := e.clone()
	if errs := given.mistakes(now.lists); len(errs) > 0 {
		return fmt.Errorf("ratelimit: exceptions of policy %q: %w", now.policy.Name, errors.Join(errs...))
	}
	changes := now.exceptions.changesTo(given)
	if len(changes) == 0 && now.exceptions.sameNotes(given) {
		return nil
	}
	next := *now
	next.except(given)
	l.exceptions.Store(given)
	l.compiled.Store(&next)
	if len(changes) > 0 {
		if !now.exceptions.noted() && !given.noted() {
			l.watch.logPolicy(next.policy, changes)
		}
		l.watch.reportPolicy(next.policy, changes)
	}
	return nil
}

// Exceptions returns what SetExceptions has set last.
func (l *Limiter) Exceptions() Exceptions {
	if e := l.current().exceptions; e != nil {
		return *e.clone()
	}
	return Exceptions{}
}
