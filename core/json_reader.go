package core

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/enum"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

// The names of fields.
var (
	fieldsOfPolicy = []string{"name", "limits", "on_failure", "local_share", "headers", "shadow", "plans", "overrides", "blocked"}
	fieldsOfLimit  = []string{"name", "capacity", "refill_rate", "refill_interval", "mode", "unit", "location", "anchor", "max_hold", "times"}
)

// reader reads what encoding/json has decoded, and collects the mistakes.
type reader struct {
	errs   []error
	wrongs map[string]bool // the fields that could not be read
}

// maxMistakes keeps the report readable. It is that of package policyfile.
const maxMistakes = 100

// full reports whether there are too many mistakes to read on.
func (r *reader) full() bool { return len(r.errs) > maxMistakes }

func (r *reader) wrong(path string, v any, reason string) {
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

// check adds mistakes in what was read, but for fields that could not be read.
func (r *reader) check(mistakes func() []error) {
	if r.wrongs["Policy"] || r.full() {
		return
	}
	for _, err := range mistakes() {
		m := err.(*mistake.Error)
		list, _, _ := strings.Cut(m.Field, "[")
		limit, _, _ := strings.Cut(m.Field, "].")
		if !r.wrongs[m.Field] && !r.wrongs[limit+"]"] && !r.wrongs[list] {
			r.errs = append(r.errs, m)
		}
	}
}

// object returns the fields of v, whose names are known. what it is in words.
func (r *reader) object(v any, path, what string, names []string, required ...string) map[string]any {
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

// readJSON returns a field that by reads, or the reason why it is wrong.
func readJSON[T any](r *reader, o map[string]any, path, name string, by func(any) (T, string)) (t T) {
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

// unquoted is a value that messages show without quotes.
type unquoted string

// What a policy in JSON may have: more than any of package policyfile.
const (
	maxJSON  = 512 << 10 // bytes
	maxDepth = 16
)

// readAllJSON decodes the only value in data as decodeJSON does.
func readAllJSON(data []byte) (any, error) {
	if len(data) > maxJSON {
		return nil, mistake.New("Policy", unquoted("JSON"), "is too large: at most 512 KiB are read")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("invalid JSON: something follows the policy")
	}
	return v, nil
}

// decodeJSON decodes a value as encoding/json, but refuses repeated fields.
func decodeJSON(d *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, mistake.New("Policy", unquoted("JSON"), "is nested too deep: a policy needs 4 levels")
	}
	start, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch start {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token() // ]
		return list, err
	case json.Delim('{'):
		fields := make(map[string]any)
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if _, known := fields[name.(string)]; known {
				return nil, mistake.New("Policy", name, "is given a second time")
			}
			if fields[name.(string)], err = decodeJSON(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.Token() // }
		return fields, err
	}
	return start, nil // a string, a number, true, false or null
}

func textJSON(v any) (s, reason string) {
	switch v := v.(type) {
	case string:
		return v, ""
	case json.Number, bool:
		return "", "must be a string: put it in quotes"
	}
	return "", "must be a string"
}

func limitNameJSON(v any) (s, reason string) {
	if s, reason = textJSON(v); reason == "" && s == "" {
		reason = "must not be empty: leave it out"
	}
	return s, reason
}

func locationJSON(v any) (location *time.Location, reason string) {
	name, reason := textJSON(v)
	if reason != "" {
		return nil, reason
	}
	return limit.LoadLocation(name)
}

func anchorJSON(v any, location *time.Location) (t time.Time, reason string) {
	s, reason := textJSON(v)
	if reason != "" {
		return t, reason
	}
	return limit.ParseAnchor(s, location)
}

func boolJSON(v any) (b bool, reason string) {
	b, ok := v.(bool)
	if !ok {
		reason = "must be true or false"
	}
	return b, reason
}

func rateJSON(v any) (float64, string) { return numberJSON(v, quantity.ParseNumber) }
func tokensJSON(v any) (int64, string) { return numberJSON(v, quantity.ParseTokens) }

func shareJSON(v any) (float64, string) { return numberJSON(v, quantity.ParseShare) } // the zero value would mean 1

func numberJSON[T any](v any, parse func(string) (T, string)) (t T, reason string) {
	switch v := v.(type) {
	case json.Number:
		return parse(v.String())
	case string:
		if quantity.IsNumber(v) {
			return t, "must be a number without quotes"
		}
		return parse(v) // to say why it is none
	}
	return t, "must be a number"
}

func intervalJSON(v any) (time.Duration, string) { return durationJSON(v, limit.TooShort) }
func holdJSON(v any) (time.Duration, string)     { return durationJSON(v, limit.BadHold) }

// durationJSON reads an interval, and asks bad what is wrong with it. A bare
// number could be seconds or, as Go writes durations, nanoseconds.
func durationJSON(v any, bad func(time.Duration) string) (time.Duration, string) {
	switch v := v.(type) {
	case json.Number:
		return 0, "needs a unit, such as " + printable.Clip(v.String(), 20) + "s"
	case string:
		d, reason := quantity.ParseInterval(v)
		if reason == "" {
			reason = bad(d)
		}
		return d, reason
	}
	return 0, quantity.WantInterval
}

// wordJSON returns a function that reads a word, in any case, as its index.
func wordJSON(words []string) func(any) (int, string) {
	return func(v any) (int, string) {
		s, _ := v.(string)
		if i := slices.Index(words, quantity.Lower(s)); i >= 0 {
			return i, ""
		}
		return 0, "must be " + enum.OneOf(words)
	}
}
