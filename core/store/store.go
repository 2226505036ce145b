// Package store is for authors of stores. A [Store] keeps the buckets of
// limiters and decides their requests. [Request.Decide] has the arithmetic for
// it, and package storetest tests it. [Memory] is the store in this process. It
// is a package because core names what apps call, and an author of a store reads
// this page alone.
//
// See [docs/how-it-works.md].
//
// [docs/how-it-works.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/how-it-works.md
package store

import (
	"context"
	"errors"
	"time"
)

// Store keeps buckets and decides requests on them. [Memory] keeps them in one
// process; package redisstore shares them between processes. Another store
// calls [Request.Decide] for the arithmetic, and package storetest tests it. A
// store with options implements [Configured] too.
//
// A Store must be safe for concurrent use. It must decide the requests on one
// key in the order of their instants, so it reads the clock inside the atomic
// step. An older instant after a newer one counts as a clock that stepped back:
// the bucket then refills again for the time between them.
type Store interface {
	// Do decides r. Decisions on one policy and key are atomic: no two take the
	// same tokens. An error means that there is no decision, not that the
	// request is denied; the policy's OnFailure then decides. If ctx ends, Do
	// must return with ctx's error: at ctx's deadline, and soon after a
	// cancellation.
	Do(ctx context.Context, r Request) (Answer, error)

	// Reset forgets the bucket of a policy and key, so that it is full again.
	Reset(ctx context.Context, policy, key string) error
}

// JointStore is a [Store] that can decide several requests in one step.
type JointStore interface {
	Store

	// DoTogether decides requests on different buckets, and returns their
	// answers in the same order. If all are granted, all take their tokens.
	// Otherwise none does: an answer with Allowed then says that its bucket has
	// the tokens, and took none.
	//
	// It returns [ErrApart], and takes nothing, if the buckets are where one
	// atomic step can't reach all. Other errors are those of Do.
	DoTogether(ctx context.Context, requests []Request) ([]Answer, error)
}

// ErrApart means that a store can't decide requests in one step, because their
// buckets may be on different servers. A store on several servers decides
// requests on one bucket in one step all the same, if it can.
var ErrApart = errors.New("ratelimit: the buckets are on different servers (RL611)")

// StateReader is a [Store] that shows what it keeps, for the tools of
// operators.
type StateReader interface {
	Store

	// State returns what the store keeps of the bucket of a policy and key,
	// without changing it. The error is that of Do.
	State(ctx context.Context, policy, key string) (State, error)
}

// State is what a [StateReader] keeps of one bucket.
type State struct {
	Bytes   []byte        // as [Request.Decide] returns them; nil if nothing is kept
	Now     time.Time     // on the store's clock
	Expires time.Duration // until the store forgets the bucket, if nobody uses it; 0 if nothing is kept, and if it never does
}
