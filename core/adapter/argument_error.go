package adapter

import "github.com/tokenbucket-go/ratelimit/core/middleware"

// Adapt turns a function on a Request, such as a key function of this package, into one on the framework's request, of which
// request makes a Request. If f was made from bad arguments, so was what Adapt returns: see [middleware.ArgumentError].
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
