// Package store is for authors of stores. A [Store] keeps the buckets of limiters and answers their requests: see
// [Request.Decide] for the arithmetic, and package storetest for tests. [Memory] is the store in this process.
package store

import (
	"context"
	"errors"
)

// Store keeps buckets and decides requests on them. [Memory] keeps them in one process; package redisstore shares
// them between processes. To write another store, call [Request.Decide] for the arithmetic and test the store with
// package storetest. A store with options can implement [Configured] too.
//
// A Store must be safe for concurrent use. It must decide the requests on one key in the order of their instants, so
// read the clock inside the atomic step. An older instant after a newer one counts as a clock that stepped back: the
// bucket refills again for the time between them.
type Store interface {
	// Do answers r. Decisions on one policy and key are atomic: no two take the same tokens. An error means that
	// there is no decision, not that the request is denied; the policy's OnFailure then decides. If ctx ends, Do
	// must return with ctx's error: at ctx's deadline, and soon after a cancellation.
	Do(ctx context.Context, r Request) (Answer, error)

	// Reset forgets the bucket of a policy and key, so that it is full again.
	Reset(ctx context.Context, policy, key string) error
}

// JointStore is a [Store] that can decide several requests in one step.
type JointStore interface {
	Store

	// DoTogether answers requests on different buckets, in their order. Either all are allowed and take their tokens, or
	// none takes any, and an answer that is allowed says only that this bucket has the tokens.
	//
	// A request on a bucket that can't be used has an error for an answer, such as the [StateError] of [Request.Decide].
	// Then none takes tokens, and the others are answered all the same. DoTogether itself returns [ErrApart], and takes
	// nothing, if the buckets are in places where nothing is atomic. Otherwise its errors are those of Do: there is no
	// answer to any request.
	DoTogether(ctx context.Context, requests []Request) ([]JointAnswer, error)
}

// JointAnswer is the answer of a [JointStore] to one of several requests.
type JointAnswer struct {
	Answer

	Err error // why there is no Answer; nil if there is one
}

// ErrApart means that a store can't decide requests in one step, because their buckets are on different servers.
var ErrApart = errors.New("ratelimit: the buckets are on different servers (RL611)")
