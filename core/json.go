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

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// policyJSON is a Policy as it is out.
type policyJSON struct {
	Name       string             `json:"name"`
	Limits     []Limit            `json:"limits"`
	Overrides  map[string][]Limit `json:"overrides,omitempty"`
	OnFailure  string             `json:"on_failure,omitzero"`
	LocalShare float64            `json:"local_share,omitzero"`
	Headers    any                `json:"headers,omitzero"`
	Shadow     bool               `json:"shadow,omitzero"`
}

// The names of values, in the order of the values; of styles, in the order of their bits.
var (
	modeNames    = []string{"continuous", "stepped", "aligned"}
	failureNames = []string{"local", "open", "closed"}
	styleNames   = []string{"legacy", "ietf", "draft6"}
	// The names of fields.
	fieldsOfPolicy = []string{"name", "limits", "on_failure", "local_share", "headers", "shadow", "overrides"}
	fieldsOfLimit  = []string{"name", "capacity", "refill_rate", "refill_interval", "mode", "unit", "location", "anchor"}
)

// MarshalJSON writes a policy as package policyfile reads it, each limit as [Limit.String] has it. It leaves
// out fields that have their zero value. The zero Policy is null. For a policy that [NewLimiter] refuses it
// returns the mistakes.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.isZero() {
		return []byte("null"), nil
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	out := policyJSON{Name: p.Name, Limits: p.Limits, Overrides: p.Overrides, LocalShare: p.LocalShare, Shadow: p.Shadow}
	if p.OnFailure != FailLocal {
		out.OnFailure = failureNames[p.OnFailure]
	}
	switch p.Headers {
	case HeadersDefault:
	case HeadersNone:
		out.Headers = "none"
	default:
		var names []string
		for i, name := range styleNames {
			if p.Headers&(HeadersLegacy<<i) != 0 {
				names = append(names, name)
			}
		}
		out.Headers = names
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads an object with the fields of package policyfile: each limit is a string, as [ParseLimit] reads
// it, or an object with the fields name, unit, capacity, refill_rate, refill_interval, mode, location and anchor, of which
// all but the numbers are strings. {"tokens": "100000/min"} is a limit with that Unit. Unknown fields are mistakes. What it reads [NewLimiter] accepts, or the error joins a [ConfigError] for every mistake. With an
// error, and when the JSON is null, it leaves p as it is.
//
// It reads at most 512 KiB, nested at most 16 deep, and reports at most 100 mistakes.
//
// Package policyfile reports the same mistakes with their lines and columns: give it a [json.RawMessage].
func (p *Policy) UnmarshalJSON(data []byte) error {
	v, err := readAllJSON(data)
	if err != nil {
		if mistake := (*ConfigError)(nil); !errors.As(err, &mistake) {
			err = fmt.Errorf("%w (RL202)", err)
		}
		return fmt.Errorf("ratelimit: policy: %w", err)
	}
	if v == nil {
		return nil
	}
	r := jsonReader{wrongs: make(map[string]bool)}
	next := r.policy(v)
	r.check(next)
	if len(r.errs) > maxMistakes {
		r.errs = append(r.errs[:maxMistakes], mistake.New("Policy", unquoted("JSON"), "has too many mistakes: only the first 100 are reported"))
	}
	if len(r.errs) > 0 {
		return fmt.Errorf("ratelimit: policy %q: %w", printable.Clip(next.Name, maxName), errors.Join(r.errs...))
	}
	*p = next
	return nil
}

// jsonReader reads what encoding/json has decoded, and collects the mistakes. Paths are those of [ConfigError.Field].
type jsonReader struct {
	errs   []error
	wrongs map[string]bool // the fields that could not be read
}

// maxMistakes keeps the report readable. It is that of package policyfile.
const maxMistakes = 100

// full reports whether there are more mistakes than are reported. Then nothing more is read.
func (r *jsonReader) full() bool { return len(r.errs) > maxMistakes }

func (r *jsonReader) wrong(path string, v any, reason string) {
	if r.full() {
		return
	}
	switch v := v.(type) {
	case nil:
		r.errs = append(r.errs, mistake.New(path, unquoted("null"), reason))
	case json.Number:
		r.errs = append(r.errs, mistake.New(path, unquoted(printable.Clip(v.String(), 80)), reason))
	case []any:
		r.errs = append(r.errs, mistake.New(path, unquoted("a list"), reason))
	case map[string]any:
		r.errs = append(r.errs, mistake.New(path, unquoted("a mapping"), reason))
	default:
		r.errs = append(r.errs, mistake.New(path, v, reason))
	}
	r.wrongs[path] = true
}

// check adds the mistakes in p, but not those in fields that could not be read.
func (r *jsonReader) check(p Policy) {
	if r.wrongs["Policy"] || r.full() {
		return
	}
	for _, err := range append(p.mistakes(), p.limitMistakes()...) {
		m := err.(*ConfigError)
		list, _, _ := strings.Cut(m.Field, "[")
		limit, _, _ := strings.Cut(m.Field, "].")
		if !r.wrongs[m.Field] && !r.wrongs[limit+"]"] && !r.wrongs[list] {
			r.errs = append(r.errs, m)
		}
	}
}

// object returns the fields of v, whose names are known. what it is in words.
func (r *jsonReader) object(v any, path, what string, names []string, required ...string) map[string]any {
	o, ok := v.(map[string]any)
	if !ok {
		r.wrong(path, v, "must be "+what+", a mapping with the fields "+strings.Join(names, ", "))
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(names, name) && !r.full() {
			r.errs = append(r.errs, mistake.New(path, name, "is not a field of "+what+": the fields are "+strings.Join(names, ", ")))
		}
	}
	for _, name := range required {
		if _, given := o[name]; !given {
			r.wrong(path+"."+goName(name), "", "is required")
		}
	}
	return o
}

// goName returns the name of a field in Go, such as RefillRate for refill_rate.
func goName(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func (r *jsonReader) policy(v any) Policy {
	o := r.object(v, "Policy", "a policy", fieldsOfPolicy, "name", "limits")
	p := Policy{
		Name:       readJSON(r, o, "Policy", "name", textJSON),
		OnFailure:  FailureMode(readJSON(r, o, "Policy", "on_failure", wordJSON(failureNames...))),
		LocalShare: readJSON(r, o, "Policy", "local_share", shareJSON),
		Shadow:     readJSON(r, o, "Policy", "shadow", boolJSON),
	}
	if v, given := o["headers"]; given {
		p.Headers = r.headers(v, "Policy.Headers")
	}
	if v, given := o["limits"]; given {
		p.Limits = r.limits(v, "Policy.Limits")
	}
	if v, given := o["overrides"]; given {
		byKey, ok := v.(map[string]any)
		switch {
		case !ok:
			r.wrong("Policy.Overrides", v, "must be a mapping from keys to lists of limits")
			return p
		case len(byKey) == 0:
			r.wrong("Policy.Overrides", unquoted("{}"), "is an empty mapping: leave it out")
			return p
		}
		p.Overrides = make(map[string][]Limit)
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			if r.full() {
				break
			}
			p.Overrides[key] = r.limits(byKey[key], "Policy.Overrides."+printable.Clip(key, maxName))
		}
	}
	return p
}

// limits reads a list of limits.
func (r *jsonReader) limits(v any, path string) (limits []Limit) {
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

// headers reads a style or a list of them.
func (r *jsonReader) headers(v any, path string) (sum HeaderStyle) {
	list, ok := v.([]any)
	if !ok {
		i, reason := wordJSON(append([]string{"default", "none"}, styleNames...)...)(v)
		if reason != "" {
			r.wrong(path, v, reason)
		}
		return [...]HeaderStyle{HeadersDefault, HeadersNone, HeadersLegacy, HeadersIETF, HeadersDraft6}[i]
	}
	if len(list) == 0 {
		r.wrong(path, unquoted("[]"), "is an empty list: at least one is required")
	}
	for i, v := range list {
		n, reason := wordJSON(styleNames...)(v)
		style := HeadersLegacy << n
		switch both := sum | style; {
		case reason != "":
			reason += " (default and none stand alone, without a list)"
		case both&HeadersIETF != 0 && both&HeadersDraft6 != 0:
			reason = "can't be sent together with the others: the RateLimit-Policy of ietf and draft6 differ"
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

// limit reads a limit that is a string or an object.
func (r *jsonReader) limit(v any, path string) (l Limit) {
	switch v := v.(type) {
	case string:
		l, mistakes := parseLimit(v)
		form := ": a limit is " + quantity.LimitForm
		for _, m := range mistakes {
			if m.Field = strings.TrimSuffix(path+"."+m.Field, "."); m.Field == path {
				m.Reason, form = m.Reason+form, "" // once is enough
			}
			r.wrong(m.Field, m.Value, m.Reason)
			r.wrongs[path] = true
		}
		return l
	case map[string]any:
		if text, n := textWithColon(v); text != "" {
			r.wrong(path, text+": "+n, "is a limit with a colon in it, so it is a mapping: write "+text+" "+n)
			return l
		}
		if unit, n := numberOfUnit(v); unit != "" {
			r.wrong(path, json.Number(n), "needs an interval: write "+printable.Clip(unit, maxName)+": "+printable.Clip(n, 20)+"/min, or another")
			return l
		}
		if unit, text, ok := ofUnit(v); ok {
			l = r.limit(text, path)
			if l.Unit != "" {
				r.wrong(path+".Unit", l.Unit, "is a second unit beside "+unit)
			}
			l.Unit = plainUnit(unit)
			return l
		}
	default:
		r.wrong(path, v, "must be a string such as 100/min burst 20, or a mapping")
		return l
	}
	o := r.object(v, path, "a limit", fieldsOfLimit, "refill_rate", "refill_interval")
	l = Limit{
		Name:           readJSON(r, o, path, "name", limitNameJSON),
		Unit:           plainUnit(readJSON(r, o, path, "unit", limitNameJSON)),
		Capacity:       readJSON(r, o, path, "capacity", tokensJSON),
		RefillRate:     readJSON(r, o, path, "refill_rate", rateJSON),
		RefillInterval: readJSON(r, o, path, "refill_interval", intervalJSON),
		Mode:           Mode(readJSON(r, o, path, "mode", wordJSON(modeNames...))),
		Location:       readJSON(r, o, path, "location", locationJSON),
	}
	l.Anchor = readJSON(r, o, path, "anchor", func(v any) (time.Time, string) { return anchorJSON(v, l.location()) })
	if _, given := o["mode"]; !given && l.onCalendar() {
		l.Mode = Aligned
	}
	if _, given := o["capacity"]; !given {
		var reason string
		if l.Capacity, reason = quantity.ImpliedCapacity(l.RefillRate); reason != "" {
			r.wrong(path+".Capacity", "", reason)
		}
	}
	return l
}

// ofUnit reports whether v is a limit's text under the name of its unit.
func ofUnit(v map[string]any) (unit, text string, ok bool) {
	for unit, value := range v {
		text, ok = value.(string)
		return unit, text, ok && len(v) == 1 && !slices.Contains(fieldsOfLimit, unit)
	}
	return "", "", false
}

// textWithColon returns what v is if it is a limit's text in which a colon makes a mapping, such as 60/min burst: 20; else "".
func textWithColon(v map[string]any) (text, after string) {
	for text, value := range v {
		if len(v) != 1 || !strings.Contains(text, "/") {
			return "", ""
		}
		switch value := value.(type) {
		case string:
			return printable.Clip(text, maxName), printable.Clip(value, 20)
		case json.Number:
			return printable.Clip(text, maxName), printable.Clip(value.String(), 20)
		}
	}
	return "", ""
}

// numberOfUnit returns what v is if it is a number under the name of a unit, in which an interval was forgotten; else "".
func numberOfUnit(v map[string]any) (unit, n string) {
	for unit, value := range v {
		if n, ok := value.(json.Number); ok && len(v) == 1 && !slices.Contains(fieldsOfLimit, unit) {
			return unit, n.String()
		}
	}
	return "", ""
}

// readJSON returns a field of an object by a function that returns a reason if it is wrong.
func readJSON[T any](r *jsonReader, o map[string]any, path, name string, by func(any) (T, string)) (t T) {
	v, given := o[name]
	if !given {
		return t
	}
	t, reason := by(v)
	if reason != "" {
		r.wrong(path+"."+goName(name), v, reason)
	}
	return t
}
