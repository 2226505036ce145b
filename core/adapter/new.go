package adapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// NewTogether returns an engine of several limiters that decide together: a request is allowed if all of them have the tokens,
// and takes nothing if not. See [core.AllowTogether]. It panics as [New] does, also without a rule, and with Limits.
func NewTogether[C any](rules []Rule[C], options Options[C]) *Engine[C] {
	var errs []error
	if len(rules) == 0 {
		errs = append(errs, &core.ConfigError{Field: "NewTogether", Value: 0, Reason: "rules given: it needs at least one, a limiter and a key"})
	}
	limiters := make([]string, len(rules))
	for i, r := range rules {
		limiters[i] = fmt.Sprintf("NewTogether rules[%d].Limiter", i)
		errs = append(errs, r.mistakes(limiters[i], fmt.Sprintf("NewTogether rules[%d].Key", i)))
	}
	if options.Limits != nil {
		errs = append(errs, &core.ConfigError{Field: "NewTogether", Value: "WithLimits", Reason: "can't be used with several limiters: use Policy.Overrides, or a limiter for each plan"})
	}
	if err := errors.Join(append(errs, options.mistakes(), options.unitMistakes(rules, limiters...))...); err != nil {
		refuseArguments(err)
	}
	return &Engine[C]{rules: slices.Clone(rules), limiter: rules[0].Limiter, options: options}
}

// InProcess returns the limiter of an adapter's PerIP: of limits that hold together, with buckets in this process. Limits are
// named as they are written, such as "60/min burst 20", and so is the policy. It panics with all mistakes in limits, as [New]
// does.
func InProcess(limits []core.Limit) *core.Limiter {
	policy := core.Policy{Name: "per-ip", Limits: slices.Clone(limits)}
	var errs []error
	for i, l := range limits {
		name := l.Name
		l.Name = ""
		if i == 0 {
			policy.Name += " " + inName(l) // so that two in one app are not taken for one that was installed twice
		}
		if name == "" {
			policy.Limits[i].Name = inName(l)
		}
		if l.Unit != "" && l.Unit != core.Requests {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("PerIP limits[%d].Unit", i), Value: l.Unit,
				Reason: "is never counted here, because PerIP takes requests only: use New with WithUnits"})
		}
	}
	l, err := core.NewLimiter(core.NewMemoryStore(), policy)
	if err != nil {
		errs = append(errs, asArguments(err))
	}
	if len(errs) > 0 {
		refuseArguments(errors.Join(errs...))
	}
	return l
}

// inName returns l as text that a name may hold. A location can have any name: one that does not fit is left out.
func inName(l core.Limit) string {
	l.Unit = "" // requests, or it is refused
	text := l.String()
	if len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		l.Location = time.UTC
		text = strings.Replace(l.String(), " in UTC", " in a zone", 1)
	}
	return text
}

// asArguments returns err with the fields of a policy's limits named as the arguments of PerIP.
func asArguments(err error) error {
	var list interface{ Unwrap() []error }
	if !errors.As(err, &list) {
		return err
	}
	var errs []error
	for _, err := range list.Unwrap() {
		if mistake := (*core.ConfigError)(nil); errors.As(err, &mistake) {
			field := "PerIP limits" + strings.TrimPrefix(mistake.Field, "Policy.Limits")
			err = &core.ConfigError{Field: field, Value: mistake.Value, Reason: mistake.Reason}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
