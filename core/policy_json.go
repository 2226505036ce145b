package core

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// MarshalJSON writes a policy as package policyfile reads it, each limit as
// [Limit.String] has it. It leaves out fields that have their zero value. The
// zero Policy is null. For a policy that [NewLimiter] refuses it returns the
// mistakes.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.isZero() {
		return []byte("null"), nil
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	out := struct {
		Name       string             `json:"name"`
		Limits     []Limit            `json:"limits"`
		Plans      map[string][]Limit `json:"plans,omitempty"`
		Overrides  map[string][]Limit `json:"overrides,omitempty"`
		Blocked    []string           `json:"blocked,omitempty"`
		OnFailure  string             `json:"on_failure,omitzero"`
		LocalShare float64            `json:"local_share,omitzero"`
		Headers    any                `json:"headers,omitzero"`
		Shadow     bool               `json:"shadow,omitzero"`
	}{Name: p.Name, Limits: p.Limits, Plans: p.Plans, Overrides: p.Overrides, Blocked: p.Blocked, LocalShare: p.LocalShare, Shadow: p.Shadow}
	if p.OnFailure != 0 {
		out.OnFailure = failureModes.Text(int(p.OnFailure))
	}
	if p.Headers != HeadersDefault {
		out.Headers = p.Headers.texts()
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an object with the fields of package policyfile: each
// limit is a string, as [ParseLimit] reads it, or an object with the fields
// name, unit, capacity, refill_rate, refill_interval, mode, location, anchor,
// max_hold and times, of which all but the numbers are strings. {"tokens":
// "100000/min"} is a limit with that Unit. Unknown fields are mistakes. What it
// reads [NewLimiter] accepts, or the error joins a [ConfigError] for every
// mistake. With an error, and when the JSON is null, it leaves p as it is.
//
// It reads at most 512 KiB, nested at most 16 deep, and reports at most 100
// mistakes.
//
// Package policyfile reports the same mistakes with their lines and columns:
// give it a [json.RawMessage].
func (p *Policy) UnmarshalJSON(data []byte) error {
	v, err := readAllJSON(data)
	if err != nil {
		if mistake := (*mistake.Error)(nil); !errors.As(err, &mistake) {
			err = fmt.Errorf("%w (RL202)", err)
		}
		return fmt.Errorf("ratelimit: policy: %w", err)
	}
	if v == nil {
		return nil // null is no policy
	}
	r := reader{wrongs: make(map[string]bool)}
	next := r.policy(v)
	r.check(func() []error { return append(next.mistakes(), next.limitMistakes()...) })
	if len(r.errs) > maxMistakes {
		r.errs = append(r.errs[:maxMistakes], mistake.New("Policy", unquoted("JSON"), "has too many mistakes: only the first 100 are reported"))
	}
	if len(r.errs) > 0 {
		return fmt.Errorf("ratelimit: policy %q: %w", printable.Clip(next.Name, limit.MaxName), errors.Join(r.errs...))
	}
	*p = next
	return nil
}

// texts returns valid styles in JSON: a list, or "none".
func (s HeaderStyle) texts() any {
	if s == HeadersNone {
		return none
	}
	var texts []string
	for bit, text := range styles.Texts() {
		if s&(1<<bit) != 0 {
			texts = append(texts, text)
		}
	}
	return texts
}

// policy reads a policy.
func (r *reader) policy(v any) Policy {
	o := r.object(v, "Policy", "a policy", fieldsOfPolicy, "name", "limits")
	p := Policy{
		Name:       readJSON(r, o, "Policy", "name", textJSON),
		OnFailure:  FailureMode(readJSON(r, o, "Policy", "on_failure", wordJSON(failureModes.Texts()))),
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
func (r *reader) lists(o map[string]any, name, path, what string) map[string][]Limit {
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
	lists := make(map[string][]Limit)
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
func (r *reader) headers(v any, path string) (sum HeaderStyle) {
	listed := slices.DeleteFunc(styles.Texts(), func(text string) bool { return text == none })
	list, ok := v.([]any)
	if !ok {
		words := append([]string{"default", none}, listed...)
		i, reason := wordJSON(words)(v)
		switch {
		case reason != "":
			r.wrong(path, v, reason)
		case i > 0:
			sum = 1 << styles.Value(words[i])
		}
		return sum
	}
	if len(list) == 0 {
		r.wrong(path, unquoted("[]"), "is an empty list: at least one is required")
	}
	for i, v := range list {
		word, reason := wordJSON(listed)(v)
		style := HeaderStyle(1 << styles.Value(listed[word]))
		switch {
		case reason != "":
			reason += " (default and none stand alone, without a list)"
		case !(sum | style).valid():
			reason = "can't be sent together with the others: the RateLimit-Policy of " + strings.Join(drafts.texts().([]string), " and ") + " differ"
		default:
			sum |= style
			continue
		}
		r.wrong(path+"["+strconv.Itoa(i)+"]", v, reason)
		r.wrongs[path] = true
	}
	return sum
}

// limits reads a list of limits.
func (r *reader) limits(v any, path string) (limits []Limit) {
	list, ok := v.([]any)
	if !ok {
		r.wrong(path, v, "must be a list of limits, such as [10/s, 1000/day]")
	}
	if ok && len(list) == 0 {
		r.wrong(path, unquoted("[]"), "is an empty list: at least one is required")
	}
	for i, v := range list {
		if r.full() {
			break
		}
		limits = append(limits, r.limit(v, path+"["+strconv.Itoa(i)+"]"))
	}
	return limits
}

// limit reads a limit that is a string or an object.
func (r *reader) limit(v any, path string) (l Limit) {
	switch v := v.(type) {
	case string:
		return r.text(v, "", path)
	case map[string]any:
		if text, n := textWithColon(v); text != "" {
			r.wrong(path, text+": "+n, "is a limit with a colon in it, so it is a mapping: write "+text+" "+n)
			return l
		}
		if unit, n := numberOfUnit(v); unit != "" {
			r.wrong(path, json.Number(n), "needs an interval: write "+printable.Clip(unit, limit.MaxName)+": "+printable.Clip(n, 20)+"/min, or another; slots are "+printable.Clip(n, 20)+" at once")
			return l
		}
		if unit, text, ok := ofUnit(v); ok {
			return r.text(text, unit, path)
		}
	default:
		r.wrong(path, v, "must be a string such as 100/min burst 20, or a mapping")
		return l
	}
	o := r.object(v, path, "a limit", fieldsOfLimit, r.required(v.(map[string]any), path)...)
	l = Limit{
		Name:           readJSON(r, o, path, "name", limitNameJSON),
		Unit:           limit.PlainUnit(readJSON(r, o, path, "unit", limitNameJSON)),
		Capacity:       readJSON(r, o, path, "capacity", tokensJSON),
		RefillRate:     readJSON(r, o, path, "refill_rate", rateJSON),
		RefillInterval: readJSON(r, o, path, "refill_interval", intervalJSON),
		Mode:           Mode(readJSON(r, o, path, "mode", wordJSON(bucket.Modes.Texts()))),
		Location:       readJSON(r, o, path, "location", locationJSON),
		MaxHold:        readJSON(r, o, path, "max_hold", holdJSON),
		Times:          readJSON(r, o, path, "times", rateJSON),
	}
	l.Anchor = readJSON(r, o, path, "anchor", func(v any) (time.Time, string) { return anchorJSON(v, l.plain().Days()) })
	if _, given := o["mode"]; !given && l.plain().OnCalendar() {
		l.Mode = Aligned
	}
	if _, given := o["capacity"]; !given && l.Mode != Concurrent && l.Times == 0 {
		l.Capacity = quantity.ImpliedCapacity(l.RefillRate)
	}
	return l
}

// required returns the fields that a limit must have which is this object.
func (r *reader) required(v map[string]any, path string) []string {
	fields := []string{"refill_rate", "refill_interval"}
	if _, factor := v["times"]; factor {
		return nil
	}
	mode, given := v["mode"]
	if !given {
		return fields
	}
	switch mode, reason := wordJSON(bucket.Modes.Texts())(mode); {
	case reason != "": // it is not known what is required
		for _, name := range fields {
			if _, given := v[name]; !given {
				r.wrongs[path+"."+goName(name)] = true
			}
		}
		return nil
	case mode == int(Concurrent):
		return []string{"capacity"}
	}
	return fields
}

// text reads a limit that is a string, of a unit in front of it, or "".
func (r *reader) text(v, unit, path string) Limit {
	l, mistakes := limit.Parse(v, unit)
	form := ": a limit is " + quantity.LimitForm
	for _, m := range mistakes {
		if m.Field = strings.TrimSuffix(path+"."+m.Field, "."); m.Field == path {
			m.Reason, form = m.Reason+form, "" // once is enough
		}
		r.wrong(m.Field, m.Value, m.Reason)
		r.wrongs[path] = true
	}
	return Limit(l)
}

// ofUnit reports whether v is a limit's text under the name of its unit.
func ofUnit(v map[string]any) (unit, text string, ok bool) {
	for unit, value := range v {
		text, ok = value.(string)
		return unit, text, ok && len(v) == 1 && !slices.Contains(fieldsOfLimit, unit)
	}
	return "", "", false
}

// textWithColon returns a text that a colon splits (60/min burst: 20), or "".
func textWithColon(v map[string]any) (text, after string) {
	for text, value := range v {
		if len(v) != 1 || !strings.Contains(text, "/") && !strings.Contains(quantity.Lower(text), "at once") {
			return "", ""
		}
		switch value := value.(type) {
		case string:
			return printable.Clip(text, limit.MaxName), printable.Clip(value, 20)
		case json.Number:
			return printable.Clip(text, limit.MaxName), printable.Clip(value.String(), 20)
		}
	}
	return "", ""
}

// numberOfUnit returns a number under a unit without an interval, or "".
func numberOfUnit(v map[string]any) (unit, n string) {
	for unit, value := range v {
		if n, ok := value.(json.Number); ok && len(v) == 1 && !slices.Contains(fieldsOfLimit, unit) {
			return unit, n.String()
		}
	}
	return "", ""
}
