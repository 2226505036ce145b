package adapter

import (
	"errors"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// InProcess returns the limiter of an adapter's PerIP: of limits that hold together, with buckets in this process. Limits are
// named as they are written, such as "60/min burst 20", and so is the policy. It panics with all mistakes in limits, as [New]
// does.
func InProcess(limits []core.Limit) *core.Limiter {
	policy := core.Policy{Name: "per-ip", Limits: slices.Clone(limits)}
	for i, l := range limits {
		name := l.Name
		l.Name = ""
		if i == 0 {
			policy.Name += " " + l.String() // so that two in one app are not taken for one that was installed twice
		}
		if name == "" {
			policy.Limits[i].Name = l.String()
		}
	}
	l, err := core.NewLimiter(core.NewMemoryStore(), policy)
	if err != nil {
		refuseArguments(asArguments(err))
	}
	return l
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
