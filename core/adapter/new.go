package adapter

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// InProcess returns the limiter of an adapter's PerIP, with buckets in this
// process. Limit and policy are named as the limit is written, such as "60/min
// burst 20". It panics with all mistakes in the arguments of PerIP, as [New]
// does.
func InProcess(limit core.Limit, options []core.IPOption) *core.Limiter {
	unnamed := limit
	unnamed.Name = ""
	name := inName(unnamed)
	limit.Name = cmp.Or(limit.Name, name)
	var errs []error
	for _, o := range options {
		errs = append(errs, o.Err)
	}
	if limit.Unit != "" && limit.Unit != core.Requests {
		errs = append(errs, &core.ConfigError{Field: "PerIP limit.Unit", Value: limit.Unit,
			Reason: "is never counted here, because PerIP takes requests only: use New with WithUnits"})
	}
	// The policy's name tells two in one app from one that was installed twice.
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "per-ip " + name, Limits: []core.Limit{limit}})
	if err != nil {
		errs = append(errs, asArguments(err))
	}
	if err := errors.Join(errs...); err != nil {
		middleware.RefuseArguments(err)
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

// asArguments returns err with the fields of the limit named as PerIP's argument.
func asArguments(err error) error {
	var list interface{ Unwrap() []error }
	if !errors.As(err, &list) {
		return err
	}
	var errs []error
	for _, err := range list.Unwrap() {
		if mistake := (*core.ConfigError)(nil); errors.As(err, &mistake) {
			field := "PerIP limit" + strings.TrimPrefix(mistake.Field, "Policy.Limits[0]")
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
