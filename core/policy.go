package core

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/enum"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Policy is a named set of limits that hold together: a request is allowed only if every limit has enough tokens. It
// takes tokens from all limits or from none.
type Policy struct {
	// Name identifies the policy's buckets in a store, and is part of header fields. It is required: printable
	// ASCII, at most 128 bytes. Limiters with the same name and store share the buckets of a key.
	Name string

	// Limits are decided together, in one atomic step: at least one, at most 64.
	Limits []Limit

	// Plans are named lists of limits, such as those that customers pay for: [Limiter.WithPlan] and the middleware's WithPlan choose
	// one for a request. A limit of a plan and one of Limits are the same bucket if they have the same name: a customer who changes the
	// plan keeps what was used. A plan's limit without a name must get one that Limits have, as [Limit.Name] describes.
	// A plan's name is printable ASCII, at most 128 bytes.
	Plans map[string][]Limit

	// Overrides are other limits for some keys, such as those of a customer who got an exception. A key is what the key
	// function returns, such as core.JoinKey("header", "x-api-key", "k-123"). An override replaces the limits that it names, and
	// leaves the others as the request's plan has them, or WithLimits, or else Limits. A name that neither Limits nor Plans have is a
	// mistake. One that only the request's plan lacks is added, up to 64 in all. [Times] multiplies limits instead.
	//
	// A limit without a name replaces the one whose name it would get among Limits: see [Limit.Name]. What the override adds to the
	// Capacity is there at once, also for a key that was denied a moment ago, and while processes without the override decide the key
	// too. Change overrides with SetPolicy.
	Overrides map[string][]Limit

	// Blocked are keys whose requests are denied, also if the store can't answer: their RetryAfter is [Never]. What a key
	// has left stays. A request that asks for nothing that the policy counts still passes, whether a cost, units or a joint charge say so,
	// and is denied only in debt, as a [Limiter.Peek] is. Change them with SetPolicy. Blocked comes before Overrides.
	Blocked []string

	// OnFailure is how the limiter decides while the store can't answer. The zero value is FailLocal.
	OnFailure FailureMode

	// LocalShare is the fraction of each limit that this process grants on its own under FailLocal: above 0, at most
	// 1. With n replicas behind one load balancer, 1/n keeps their sum at the limit. The zero value means 1. Every
	// limit grants at least one token.
	LocalShare float64

	// Shadow is for trying out a limit. The limiter decides, takes tokens and reports, but denies no request: results
	// are Allowed, and ShadowDenied marks requests that would have been denied. It sends no header fields and makes
	// no caller wait. Middleware lets a request pass even if it has no key, the store can't answer, or its context
	// has ended.
	Shadow bool

	// Headers is the set of header fields sent with every response. The zero value is HeadersDefault.
	Headers HeaderStyle
}

// Validate returns nil if [NewLimiter] accepts p, or an error that joins a [ConfigError] for every mistake,
// as NewLimiter reports them.
func (p Policy) Validate() error { return p.refusal() }

// refusal is the error for the mistakes in p and in what it is used with, or nil.
func (p Policy) refusal(others ...error) error {
	errs := append(p.mistakes(), others...)
	errs = append(errs, p.limitMistakes()...)
	switch {
	case p.isZero(): // a map returns one for a name that it does not hold
		return fmt.Errorf("ratelimit: the policy is empty: if it comes from a map, check the name it is looked up by: %w", errors.Join(errs...))
	case len(errs) > 0:
		return fmt.Errorf("ratelimit: policy %q: %w", printable.Clip(p.Name, limit.MaxName), errors.Join(errs...))
	}
	return nil
}

// limitMistakes returns what is wrong with p's limits.
func (p Policy) limitMistakes() []error {
	errs := limit.ListMistakes(p.Name, each(p.Limits, Limit.plain), "Policy.Limits")
	errs = append(errs, p.lists().planMistakes()...)
	errs = append(errs, p.lists().overrideMistakes("Policy.Overrides", p.Overrides)...)
	if i := slices.Index(p.Blocked, ""); i >= 0 {
		errs = append(errs, mistake.New("Policy.Blocked["+strconv.Itoa(i)+"]", "", "is an empty key, which no request can have"))
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
	if reason := limit.BadName(p.Name); reason != "" {
		errs = append(errs, mistake.New("Policy.Name", p.Name, reason))
	}
	if !failureModes.Valid(int(p.OnFailure)) {
		errs = append(errs, mistake.New("Policy.OnFailure", p.OnFailure, failureModes.Want()))
	}
	if p.LocalShare < 0 || p.LocalShare > 1 || math.IsNaN(p.LocalShare) {
		errs = append(errs, mistake.New("Policy.LocalShare", p.LocalShare, "must be above 0 and at most 1 (0 means 1)"))
	}
	if !p.Headers.valid() {
		errs = append(errs, mistake.New("Policy.Headers", p.Headers, styles.Want()+"; HeadersNone stands alone, and "+apart.String()+" can't be combined"))
	}
	return errs
}

// share is LocalShare with its default.
func (p Policy) share() float64 {
	if p.LocalShare == 0 {
		return 1
	}
	return p.LocalShare
}

// scaled returns the limits that one process grants on its own: share of each. A share of 0 means 1.
func scaled(limits []Limit, share float64) []Limit {
	local := make([]Limit, len(limits))
	for i, l := range limits {
		if local[i] = l; share > 0 && share < 1 {
			local[i] = Limit(l.plain().Scale(share))
		}
	}
	return local
}

// FailureMode is how a limiter decides while its store can't answer.
type FailureMode uint8

const (
	// FailLocal decides in this process alone, with buckets that start full, until the store answers again. Then n
	// processes together admit up to n times the limit, or less with LocalShare. It is the default.
	FailLocal FailureMode = iota
	// FailOpen allows every request.
	FailOpen
	// FailClosed decides nothing: Allow returns ErrUnavailable, and HTTP clients get 503, never 429.
	FailClosed
)

// failureModes are the names of failure modes.
var failureModes = enum.Names{Type: "FailureMode", Prefix: "Fail", Of: []string{"Local", "Open", "Closed"}}

// String returns the mode's name in Go, without the package.
func (m FailureMode) String() string { return failureModes.Go(int(m)) }
