package core

import (
	"github.com/tokenbucket-go/ratelimit/core/internal/policyjson"
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
	return policyjson.Write(policyjson.Policy{
		Name: p.Name, Limits: each(p.Limits, Limit.plain), Plans: eachOf(p.Plans, Limit.plain), Overrides: eachOf(p.Overrides, Limit.plain), Blocked: p.Blocked,
		OnFailure: int(p.OnFailure), LocalShare: p.LocalShare, Shadow: p.Shadow, Headers: int(p.Headers),
	})
}

// UnmarshalJSON reads an object with the fields of package policyfile: each limit is a string, as [ParseLimit] reads
// it, or an object with the fields name, unit, capacity, refill_rate, refill_interval, mode, location, anchor, max_hold and times, of
// which all but the numbers are strings. {"tokens": "100000/min"} is a limit with that Unit. Unknown fields are mistakes. What it reads [NewLimiter] accepts, or the error joins a [ConfigError] for every mistake. With an
// error, and when the JSON is null, it leaves p as it is.
//
// It reads at most 512 KiB, nested at most 16 deep, and reports at most 100 mistakes.
//
// Package policyfile reports the same mistakes with their lines and columns: give it a [json.RawMessage].
func (p *Policy) UnmarshalJSON(data []byte) error {
	read, err := policyjson.Read(data, func(read policyjson.Policy) []error {
		next := policyOf(read)
		return append(next.mistakes(), next.limitMistakes()...)
	})
	if err == nil && read != nil {
		*p = policyOf(*read)
	}
	return err
}

// policyOf returns a policy that was read.
func policyOf(p policyjson.Policy) Policy {
	return Policy{
		Name: p.Name, Limits: each(p.Limits, documented), Plans: eachOf(p.Plans, documented), Overrides: eachOf(p.Overrides, documented), Blocked: p.Blocked,
		OnFailure: FailureMode(p.OnFailure), LocalShare: p.LocalShare, Shadow: p.Shadow, Headers: HeaderStyle(p.Headers),
	}
}

// eachOf returns what f makes of each element of lists by key.
func eachOf[A, B any](lists map[string][]A, f func(A) B) map[string][]B {
	if lists == nil {
		return nil
	}
	made := make(map[string][]B, len(lists))
	for key, list := range lists {
		made[key] = each(list, f)
	}
	return made
}
