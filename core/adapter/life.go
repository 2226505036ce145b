package adapter

import (
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// Decision is what a limiter stores with a request.
type Decision = middleware.Decision

// FromContext returns the Result of the newest decision. stored is what the request's Decision returns. An adapter's own
// FromContext calls it.
func FromContext(stored any) (core.Result, bool) { return middleware.FromContext(stored) }

// AllFromContext returns the Results of all decisions about a request, the newest first. stored is what the request's Decision
// returns.
func AllFromContext(stored any) []core.Result { return middleware.AllFromContext(stored) }

// Join limits by several keys together, such as route and user. See [middleware.Join].
func Join[C any, K ~func(C) (string, error)](keys ...K) K { return middleware.Join[C](keys...) }

// FirstOf limits by the first key that is not missing, such as an API key or else the address. See [middleware.FirstOf].
func FirstOf[C any, K ~func(C) (string, error)](keys ...K) K { return middleware.FirstOf[C](keys...) }
