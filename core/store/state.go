package store

import (
	"context"
	"time"
)

// StateReader is a [Store] that shows what it keeps, for the tools of operators.
type StateReader interface {
	Store

	// State returns what the store keeps of the bucket of a policy and key, without changing it. The error is that of Do.
	State(ctx context.Context, policy, key string) (State, error)
}

// State is what a [StateReader] keeps of one bucket.
type State struct {
	Bytes   []byte        // as [Request.Decide] returns them; nil if nothing is kept
	Now     time.Time     // on the store's clock
	Expires time.Duration // until the store forgets the bucket, if nobody uses it; 0 if nothing is kept, and if it never does
}
