package core

import (
	"encoding/json"
	"fmt"
	"time"
)

// String is the limit and its state in a few words. (Without it the embedded Limit's would hide the state.)
func (r LimitResult) String() string {
	s := fmt.Sprintf("%v: %d left, full in %v", r.Limit, r.Remaining, r.ResetAfter)
	switch {
	case r.Violated && r.RetryAfter == Never:
		s += ", violated for good"
	case r.Violated:
		s += fmt.Sprintf(", violated for %v", r.RetryAfter)
	}
	return s
}

// MarshalText writes what String returns, for logs.
func (r LimitResult) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// limitFields is a Limit without its text form.
type limitFields Limit

// limitResultFields is a LimitResult as encoders see it.
type limitResultFields struct {
	limitFields `yaml:",inline"`
	Remaining   int64
	Violated    bool
	RetryAfter  time.Duration
	ResetAfter  time.Duration
}

func (r LimitResult) fields() limitResultFields {
	return limitResultFields{limitFields(r.Limit), r.Remaining, r.Violated, r.RetryAfter, r.ResetAfter}
}

func (f limitResultFields) result() LimitResult {
	return LimitResult{Limit(f.limitFields), f.Remaining, f.Violated, f.RetryAfter, f.ResetAfter}
}

// MarshalJSON writes an object of all fields, those of the Limit among them.
func (r LimitResult) MarshalJSON() ([]byte, error) { return json.Marshal(r.fields()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *LimitResult) UnmarshalJSON(data []byte) error {
	var f limitResultFields
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	*r = f.result()
	return nil
}

// MarshalYAML writes a mapping of all fields, those of the Limit among them, for packages that look for it, as
// go.yaml.in/yaml does. (They would write MarshalText's words else, which nothing reads.)
func (r LimitResult) MarshalYAML() (any, error) { return r.fields(), nil }

// UnmarshalYAML reads what MarshalYAML writes.
func (r *LimitResult) UnmarshalYAML(unmarshal func(any) error) error {
	var f limitResultFields
	if err := unmarshal(&f); err != nil {
		return err
	}
	*r = f.result()
	return nil
}
