package core

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MarshalJSON writes a policy as [ParsePolicy] reads it, each limit as [Limit.String] has it; fields that
// have their zero value are left out. The zero Policy is null. Of a policy that [NewLimiter] refuses it
// returns the mistakes.
func (p Policy) MarshalJSON() ([]byte, error) {
	if p.isZero() {
		return []byte("null"), nil
	}
	if errs := append(p.mistakes(), limitMistakes(p.Name, p.Limits, "Policy.Limits")...); len(errs) > 0 {
		return nil, fmt.Errorf("ratelimit: policy %q: %w", p.Name, errors.Join(errs...))
	}
	written := struct {
		Name       string  `json:"name"`
		Limits     []Limit `json:"limits"`
		OnFailure  string  `json:"on_failure,omitempty"`
		LocalShare float64 `json:"local_share,omitempty"`
		Headers    any     `json:"headers,omitempty"`
		Shadow     bool    `json:"shadow,omitempty"`
	}{Name: p.Name, Limits: p.Limits, LocalShare: p.LocalShare, Shadow: p.Shadow}
	if p.OnFailure != FailLocal {
		written.OnFailure = failureNames[p.OnFailure]
	}
	switch p.Headers {
	case HeadersDefault:
	case HeadersNone:
		written.Headers = "none"
	default:
		written.Headers = p.Headers.names()
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads what [ParsePolicy] reads, with its errors, whose lines count from the policy's own
// first. It leaves p as it is when the JSON is null.
func (p *Policy) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	parsed, err := ParsePolicy(data)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

func (p Policy) isZero() bool {
	return p.Name == "" && p.Limits == nil && p.OnFailure == FailLocal && p.LocalShare == 0 && !p.Shadow && p.Headers == HeadersDefault
}

// names are those of the styles that s adds up.
func (s HeaderStyle) names() (list []string) {
	for i, name := range styleNames {
		if s&(HeadersLegacy<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}
