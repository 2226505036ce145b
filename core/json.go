package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// policyJSON is a Policy as its JSON has it.
type policyJSON struct {
	Name       string      `json:"name"`
	Limits     []Limit     `json:"limits"`
	OnFailure  failureJSON `json:"on_failure,omitzero"`
	LocalShare *float64    `json:"local_share,omitzero"`
	Headers    headersJSON `json:"headers,omitzero"`
	Shadow     bool        `json:"shadow,omitzero"`
}

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
	written := policyJSON{p.Name, p.Limits, failureJSON(p.OnFailure), nil, headersJSON(p.Headers), p.Shadow}
	if p.LocalShare != 0 {
		written.LocalShare = &p.LocalShare
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads what [Policy.MarshalJSON] writes: every limit is a string. Unknown fields are mistakes.
// With an error, and when the JSON is null, it leaves p as it is. What it reads [NewLimiter] accepts.
//
// Package policyfile reads the same fields, and limits that are objects. It reports all mistakes at once, each with
// its line and column: give it a [json.RawMessage].
func (p *Policy) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var read policyJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return fmt.Errorf("ratelimit: policy: %w", err)
	}
	next := Policy{Name: read.Name, Limits: read.Limits, OnFailure: FailureMode(read.OnFailure), Headers: HeaderStyle(read.Headers), Shadow: read.Shadow}
	if read.LocalShare != nil {
		if next.LocalShare = *read.LocalShare; next.LocalShare == 0 { // in Go the zero value means 1
			return fmt.Errorf("ratelimit: policy: %w", &ConfigError{"Policy.LocalShare", 0, "must be above 0 and at most 1"})
		}
	}
	if err := next.Validate(); err != nil {
		return err
	}
	*p = next
	return nil
}

// failureJSON is a FailureMode by its name.
type failureJSON FailureMode

// failureNames are in the order of the modes.
var failureNames = []string{"local", "open", "closed"}

func (m failureJSON) MarshalText() ([]byte, error) { return []byte(failureNames[m]), nil }

func (m *failureJSON) UnmarshalText(text []byte) error {
	i := slices.Index(failureNames, string(bytes.ToLower(text)))
	if i < 0 {
		return &ConfigError{"Policy.OnFailure", string(text), "must be local, open or closed"}
	}
	*m = failureJSON(i)
	return nil
}

// headersJSON is a HeaderStyle: "none", "default" or a list of the styles that it adds up.
type headersJSON HeaderStyle

// styleNames are in the order of the styles' bits.
var styleNames = []string{"legacy", "ietf", "draft6", "none"}

func (h headersJSON) MarshalJSON() ([]byte, error) {
	var names []string
	for i, name := range styleNames {
		if h&headersJSON(HeadersLegacy<<i) != 0 {
			names = append(names, name)
		}
	}
	if HeaderStyle(h) == HeadersNone {
		return json.Marshal(names[0])
	}
	return json.Marshal(names)
}

func (h *headersJSON) UnmarshalJSON(data []byte) error {
	names := make([]string, 1)
	list, into := data[0] == '[', any(&names[0])
	if list {
		into = &names
	}
	if err := json.Unmarshal(data, into); err != nil {
		return err
	}
	if !list && strings.EqualFold(names[0], "default") {
		*h = headersJSON(HeadersDefault)
		return nil
	}
	var sum HeaderStyle
	for _, name := range names {
		i := slices.Index(styleNames, strings.ToLower(name))
		if i < 0 {
			return &ConfigError{"Policy.Headers", name, "must be default, none, legacy, ietf or draft6"}
		}
		sum |= HeadersLegacy << i
	}
	if len(names) == 0 {
		return &ConfigError{"Policy.Headers", "[]", "must have at least one of legacy, ietf and draft6"}
	}
	*h = headersJSON(sum)
	return nil
}
