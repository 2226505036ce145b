package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// newLibrary is this library with its defaults, the deny cache among them, except that an outage fails the
// run instead of being bridged, and that a stall of the machine is waited for as long as the peers wait.
func newLibrary(to Connection, l Limit) (*Redis, error) {
	c, closeClient := client(to)
	decide, err := Decider(redisstore.New(c, patient), l.core())
	return &Redis{
		Name: Library, Decide: decide, KeysPerKey: 1, Scripted: true, close: closeClient,
	}, err
}

// NewLeasing is this library with leases of up to n tokens.
func NewLeasing(to Connection, l Limit, n int64) (*Redis, error) {
	c, closeClient := client(to)
	decide, err := Decider(redisstore.New(c, patient, redisstore.WithLease(n)), l.core())
	return &Redis{
		Name: fmt.Sprintf("%s, leases of %d", Library, n), DB: to.DB, KeysPerKey: 1, close: closeClient, Decide: decide,
	}, err
}

// patient waits out a stall of the machine as long as the peers do.
var patient = redisstore.WithTimeout(3 * time.Second)

// Decider decides by this library in a store.
func Decider(store *redisstore.Store, limits ...core.Limit) (Decide, error) {
	limiter, err := core.NewLimiter(store, core.Policy{Name: "api", Limits: limits, OnFailure: core.FailClosed})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.AllowN(ctx, key, 1)
		if err == nil && (res.Source == core.FromFallback || res.Source == core.FromFailOpen) {
			err = fmt.Errorf("decided by %v, not by the store: %w", res.Source, res.Cause)
		}
		return res.Allowed, err
	}, nil
}

// LibraryOnRedis is this library for a middleware. It refuses what Redis did not decide, so that clients see it.
func LibraryOnRedis(to Connection, l Limit, headers core.HeaderStyle) (*core.Limiter, error) {
	c, _ := client(to)
	return core.NewLimiter(redisstore.New(c, patient), core.Policy{
		Name: "api", Limits: []core.Limit{l.core()}, OnFailure: core.FailClosed, Headers: headers,
	})
}
