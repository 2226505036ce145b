// Package hook lends functions of package core to this module's middleware. It
// is a package because apps don't need them, so core does not export them.
//
// Core sets them before main begins. Their types name types of core, which
// imports this package: packages middleware and adapter assert them.
package hook

import "github.com/tokenbucket-go/ratelimit/core/internal/bucket"

var (
	// Counts is a func(l *core.Limiter, key, unit string) bool. It reports
	// whether a limit of key, or of any key if that is "", counts a unit.
	Counts any

	// Snapshot is a func(*core.Limiter) *core.Limiter. It returns a limiter
	// that keeps the policy of another, for one decision: middleware that asks
	// what a policy counts, and then has it decide, needs one policy for both.
	Snapshot any

	// Require is a func(l *core.Limiter, unit string). It says that callers of
	// l take a unit, as decisions do by themselves: Limiter.SetPolicy then
	// refuses a policy none of whose limits counts it. Middleware calls it when
	// it is made. Limiters that WithLimits returned ignore it.
	Require any

	// PreparePolicy is a func(*core.Limiter, core.Policy) (finish func(set
	// bool), err error). It checks the policy as Limiter.SetPolicy does. Unless
	// it returns an error, the caller must soon call finish, with whether to
	// set the policy: until then nobody can set another one.
	PreparePolicy any

	// Logger is a func(*core.Limiter) *slog.Logger: where the limiter's
	// warnings go, or those of nil.
	Logger any

	// AllowAll is a func(*core.Limiter, context.Context, string) (core.Result,
	// error). It is AllowN with the largest cost that a request of the key can
	// have, for a request of unknown cost.
	AllowAll any

	// HoldsEstimates is a func(core.Result) bool. It reports whether the
	// decision took estimates that come back after MaxHold.
	HoldsEstimates any

	// Keep is a func(core.Result) bool. It has the decision's slots prolonged
	// until ReleaseSoon, and reports whether there are any.
	Keep any
	// ReleaseSoon is a func(core.Result). It ends Keep. Once, it is
	// Result.Release too, but does not wait for the store, and leaves the slots
	// to an app that has called Hold.
	ReleaseSoon any

	// InTurn is a func(l *core.Limiter, ctx context.Context, key string, denied
	// []core.Result, ask func() ([]core.Result, error)) error. It calls ask
	// until that returns no denials, in the order of the callers of Acquire and
	// InTurn that wait for key in l. Before each further call it waits for what
	// the denials lack; denied are those of a call just before. It returns
	// ask's error, core.ErrDeadline or core.ErrCapacity if waiting does not
	// help, or ctx's error if that ends.
	InTurn any

	// Waited is a func(l *core.Limiter, key string) bool. It reports whether a
	// caller of Acquire or InTurn waits for key.
	Waited any

	// State is a func(*core.Limiter, context.Context, string) ([]core.Limit,
	// *bucket.LimitSet, store.State, error). It returns the limits of a key, as
	// decisions need them too, and what the store keeps of the key.
	State any

	// Pack is a func(core.Result) (p PackedResult, writes bool). It packs the
	// Result, which must be as a limiter returned it. writes is whether
	// WriteHeaders writes anything.
	Pack any

	// Unpack is a func(p *PackedResult, l *core.Limiter, key string)
	// core.Result, of a decision of l on key. All Results of one p together can
	// be undone or settled once.
	Unpack any

	// WriteHeaders is a func(core.Result, *field.Room, field.Header). It is
	// Result.WriteHeaders for any kind of header and without the allocation:
	// values that are made for this response are in room.
	WriteHeaders any

	// Order is a func(core.Result) []int: the indexes of Parts, the
	// tightest last.
	Order any

	// Unsettled is a func(context.Context, core.Result, error). It tells
	// observers that decisions were not settled, and why, as Settle does by
	// itself: for middleware that has no units to settle.
	Unsettled any
)

// CallerDone wraps an error of the caller's own context. It does not mean that
// the store failed.
type CallerDone struct{ error }

// Done wraps err.
func Done(err error) CallerDone { return CallerDone{err} }

func (c CallerDone) Unwrap() error { return c.error }

// PackedResult is a core.Result in a quarter of its memory, for middleware that
// keeps one with every request although few handlers ask for it. Packing what
// most requests are, allowed by one limit and without a failure, costs no
// allocation. Any other Result is copied.
type PackedResult struct {
	From      any // the limits, or a copy of the whole Result
	Now, Cost int64
	Level     bucket.Left
	Once      *uint32 // becomes 1 when a copy of the Result is undone or settled; nil: Ended does
	Ended     uint32
	Source    uint8
	Headers   uint8
}
