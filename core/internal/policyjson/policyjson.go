// Package policyjson reads and writes policies as JSON, in the form of package
// policyfile. It is a package because it needs neither limiters nor stores.
package policyjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Policy is a core.Policy. Its numbers are those of core's constants.
type Policy struct {
	Name       string
	Limits     []limit.Limit
	Plans      map[string][]limit.Limit
	Overrides  map[string][]limit.Limit
	Blocked    []string
	OnFailure  int
	LocalShare float64
	Shadow     bool
	Headers    int
}

// The names of values, in the order of the values; of styles, in the order of their bits.
var (
	failureNames = []string{"local", "open", "closed"}
	styleNames   = []string{"legacy", "draft8", "draft6"}
)

// The bits of styles, and none of them.
const (
	legacy = 1 << iota
	draft8
	draft6
	none
)

// Write returns a valid policy as JSON. It leaves out fields that have their zero value.
func Write(p Policy) ([]byte, error) {
	out := struct {
		Name       string                   `json:"name"`
		Limits     []limit.Limit            `json:"limits"`
		Plans      map[string][]limit.Limit `json:"plans,omitempty"`
		Overrides  map[string][]limit.Limit `json:"overrides,omitempty"`
		Blocked    []string                 `json:"blocked,omitempty"`
		OnFailure  string                   `json:"on_failure,omitzero"`
		LocalShare float64                  `json:"local_share,omitzero"`
		Headers    any                      `json:"headers,omitzero"`
		Shadow     bool                     `json:"shadow,omitzero"`
	}{Name: p.Name, Limits: p.Limits, Plans: p.Plans, Overrides: p.Overrides, Blocked: p.Blocked, LocalShare: p.LocalShare, Shadow: p.Shadow}
	if p.OnFailure != 0 {
		out.OnFailure = failureNames[p.OnFailure]
	}
	switch p.Headers {
	case 0:
	case none:
		out.Headers = "none"
	default:
		var names []string
		for i, name := range styleNames {
			if p.Headers&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		out.Headers = names
	}
	return json.Marshal(out)
}

// Read reads a policy, or nil from null. mistakes returns those in a policy that could be read. The error joins a
// [mistake.Error] for each.
func Read(data []byte, mistakes func(Policy) []error) (*Policy, error) {
	v, err := readAllJSON(data)
	if err != nil {
		if mistake := (*mistake.Error)(nil); !errors.As(err, &mistake) {
			err = fmt.Errorf("%w (RL202)", err)
		}
		return nil, fmt.Errorf("ratelimit: policy: %w", err)
	}
	if v == nil {
		return nil, nil //nolint:nilnil // null is no policy
	}
	r := reader{wrongs: make(map[string]bool)}
	next := r.policy(v)
	r.check(func() []error { return mistakes(next) })
	if len(r.errs) > maxMistakes {
		r.errs = append(r.errs[:maxMistakes], mistake.New("Policy", unquoted("JSON"), "has too many mistakes: only the first 100 are reported"))
	}
	if len(r.errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", printable.Clip(next.Name, limit.MaxName), errors.Join(r.errs...))
	}
	return &next, nil
}

// policy reads a policy.
func (r *reader) policy(v any) Policy {
	o := r.object(v, "Policy", "a policy", fieldsOfPolicy, "name", "limits")
	p := Policy{
		Name:       readJSON(r, o, "Policy", "name", textJSON),
		OnFailure:  readJSON(r, o, "Policy", "on_failure", wordJSON(failureNames...)),
		LocalShare: readJSON(r, o, "Policy", "local_share", shareJSON),
		Shadow:     readJSON(r, o, "Policy", "shadow", boolJSON),
	}
	if v, given := o["headers"]; given {
		p.Headers = r.headers(v, "Policy.Headers")
	}
	if v, given := o["limits"]; given {
		p.Limits = r.limits(v, "Policy.Limits")
	}
	if v, given := o["blocked"]; given {
		p.Blocked = r.keys(v, "Policy.Blocked")
	}
	p.Plans = r.lists(o, "plans", "Policy.Plans", "names")
	p.Overrides = r.lists(o, "overrides", "Policy.Overrides", "keys")
	return p
}

// lists reads a mapping to lists of limits, from what are of that name.
func (r *reader) lists(o map[string]any, name, path, what string) map[string][]limit.Limit {
	v, given := o[name]
	if !given {
		return nil
	}
	values, ok := v.(map[string]any)
	switch {
	case !ok:
		r.wrong(path, v, "must be a mapping from "+what+" to lists of limits")
		return nil
	case len(values) == 0:
		r.wrong(path, unquoted("{}"), "is an empty mapping: leave it out")
		return nil
	}
	lists := make(map[string][]limit.Limit)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if r.full() {
			break
		}
		lists[key] = r.limits(values[key], path+"."+printable.Clip(key, limit.MaxName))
	}
	return lists
}

// keys reads a list of keys.
func (r *reader) keys(v any, path string) (keys []string) {
	list, ok := v.([]any)
	switch {
	case !ok:
		r.wrong(path, v, "must be a list of keys, such as [ip:192.0.2.1]")
	case len(list) == 0:
		r.wrong(path, unquoted("[]"), "is an empty list: leave it out")
	}
	for i, v := range list {
		if r.full() {
			break
		}
		key, reason := textJSON(v)
		if _, number := v.(json.Number); number {
			v = unquoted("a number") // it may be a secret
		}
		if reason != "" {
			r.wrong(path+"["+strconv.Itoa(i)+"]", v, reason)
		}
		keys = append(keys, key)
	}
	return keys
}

// headers reads a style or a list of them.
func (r *reader) headers(v any, path string) (sum int) {
	list, ok := v.([]any)
	if !ok {
		i, reason := wordJSON(append([]string{"default", "none"}, styleNames...)...)(v)
		if reason != "" {
			r.wrong(path, v, reason)
		}
		return [...]int{0, none, legacy, draft8, draft6}[i]
	}
	if len(list) == 0 {
		r.wrong(path, unquoted("[]"), "is an empty list: at least one is required")
	}
	for i, v := range list {
		n, reason := wordJSON(styleNames...)(v)
		style := 1 << n
		switch both := sum | style; {
		case reason != "":
			reason += " (default and none stand alone, without a list)"
		case both&draft8 != 0 && both&draft6 != 0:
			reason = "can't be sent together with the others: the RateLimit-Policy of draft8 and draft6 differ"
		}
		if reason == "" {
			sum |= style
			continue
		}
		r.wrong(path+"["+strconv.Itoa(i)+"]", v, reason)
		r.wrongs[path] = true
	}
	return sum
}
