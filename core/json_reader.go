package core

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// The names of fields.
var (
	fieldsOfPolicy = []string{"name", "limits", "on_failure", "local_share", "headers", "shadow", "plans", "overrides", "blocked"}
	fieldsOfLimit  = []string{"name", "capacity", "refill_rate", "refill_interval", "mode", "unit", "location", "anchor", "max_hold", "times"}
)

// reader reads what encoding/json has decoded, and collects the mistakes. Paths are those of [mistake.Error.Field].
type reader struct {
	errs   []error
	wrongs map[string]bool // the fields that could not be read
}

// maxMistakes keeps the report readable. It is that of package policyfile.
const maxMistakes = 100

// full reports whether there are more mistakes than are reported. Then nothing more is read.
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

// check adds mistakes in what was read, but not those in fields that could not be read.
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

// readJSON returns a field of an object by a function that returns a reason if it is wrong.
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
