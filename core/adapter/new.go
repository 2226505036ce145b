package adapter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// InProcess returns the limiter of an adapter's PerIP: of limits that hold
// together, with buckets in this process. Limits are named as they are written,
// such as "60/min burst 20", and so is the policy. It panics with all mistakes
// in limits, as [New] does.
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
		middleware.RefuseArguments(errors.Join(errs...))
	}
	return l
}

// inName returns l as a name may have it, if need be without its location.
func inName(l core.Limit) string {
	l.Unit = "" // requests, or it is refused
	text := l.String()
	if len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		l.Location = time.UTC
		text = strings.Replace(l.String(), " in UTC", " in a zone", 1)
	}
	return text
}

// asArguments returns err with the fields of limits named as PerIP's arguments.
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

// Adapt turns a function on a Request, such as a key function of this package,
// into one on the framework's request, of which request makes a Request. If f
// was made from bad arguments, so was what Adapt returns: see
// [middleware.ArgumentError].
func Adapt[C, V any](f func(Request) (V, error), request func(C) Request) func(C) (V, error) {
	if err := middleware.ArgumentError(f); err != nil {
		return middleware.Invalid[C, V](err)
	}
	return func(c C) (V, error) { return f(request(c)) }
}

// AdaptPooled is [Adapt] with Requests of a [Pool].
func AdaptPooled[C, X, V any, P requestOf[X]](f func(Request) (V, error), requests *Pool[C, X, P]) func(C) (V, error) {
	if err := middleware.ArgumentError(f); err != nil {
		return middleware.Invalid[C, V](err)
	}
	return func(c C) (V, error) {
		x := requests.Get(c)
		v, err := f(x)
		requests.Put(x)
		return v, err
	}
}

// badKey is [middleware.BadArgument] for extractors.
func badKey(field string, value any, reason string) KeyFunc {
	return middleware.BadArgument[Request, string](field, value, reason)
}
