package core

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/gather"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Result is one decision. If the policy has several limits, Remaining is the
// tightest limit's, and RetryAfter and ResetAfter are the longest.
// [Result.Limits] returns each limit's own.
//
// A Result knows its limiter and key, so [Result.Undo] gives back what it took
// and [Result.Settle] corrects it. It holds the key as the caller passed it:
// clone a key that is a view of a reused buffer if you keep the Result longer
// than the buffer.
type Result struct {
	// Allowed reports whether the request is allowed. If so, its cost has been
	// taken.
	Allowed bool

	// ShadowDenied reports that the request is Allowed only because its policy
	// is in shadow mode. Nothing was taken.
	ShadowDenied bool

	// Source is who decided.
	Source Source

	// Unused reports, for a Peek, that the store has nothing for the key: no
	// request ever came with it, or its bucket is full again and was forgotten.
	// A MemoryStore forgets full buckets only when it needs room.
	Unused bool

	headers  HeaderStyle // the policy's
	inShadow bool        // the policy was in shadow mode
	untaken  bool        // another decision that belongs to this one denied, so nothing was taken

	// Remaining is how many whole tokens the tightest limit has left: at least
	// 0.
	Remaining int64

	// RetryAfter is how long to wait before the same request can be allowed, if
	// no other request takes tokens in the meantime. It is 0 if Allowed,
	// [Never] if the cost exceeds a Capacity, and otherwise at least 1 µs.
	RetryAfter time.Duration

	// ResetAfter is how long it takes until every limit is full again.
	ResetAfter time.Duration

	// Cost is how many tokens the request asked for, of the limits that count
	// requests. [LimitResult.Cost] has those of other units. For
	// [Limiter.AllowAtMost] it is how many it got.
	Cost int64

	// Cause is why the store could not decide, or nil if it did. Do not show it
	// to clients.
	Cause error

	limiter *Limiter // that returned this; nil: none did
	key     string   // as the limiter got it
	answer  store.Answer
	each    *[]int64  // the tokens asked of each limit; nil: Cost of those that count requests
	ticket  int64     // of the hold, if this is the result of a reservation; else 0
	held    *held     // what it holds; nil: nothing, or the hold of a reservation
	set     *limitSet // nil if no limit was checked: FromFailOpen, or an error

	tightest int32 // index of the tightest limit in the set

	// ended is 1 when the Result was undone or settled. A copy has its own,
	// unless both have the same once. That is a number where the Result is kept
	// for others, so that a decision without that costs no allocation.
	ended uint32
	once  *uint32
}

// end notes that r is undone or settled. It reports whether it was not before.
func (r *Result) end() bool {
	ended := r.once
	if ended == nil {
		ended = &r.ended
	}
	return atomic.CompareAndSwapUint32(ended, 0, 1)
}

// endIn is end before something is sent, unless ctx has ended.
func (r *Result) endIn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return hook.Done(err)
	}
	if !r.end() {
		return ErrSettled
	}
	return nil
}

// LimitResult is the state of one limit after a decision.
type LimitResult struct {
	Limit      Limit         // as configured, with its name
	Cost       int64         // tokens that the request asked for
	Remaining  int64         // whole tokens left
	Debt       int64         // tokens that the limit owes, rounded up: see [Limiter.Debit]; 0 unless Remaining is 0
	Violated   bool          // the limit lacked tokens, so the request was denied
	RetryAfter time.Duration // until the limit has enough tokens for the request; 0 unless Violated
	ResetAfter time.Duration // until the limit is full
}

// Limits returns the state of each limit, in the policy's order. It allocates
// the slice. It returns nil if no store or fallback decided (FromFailOpen, or
// an error).
func (r Result) Limits() []LimitResult {
	if r.set == nil {
		return nil
	}
	list := make([]LimitResult, len(r.set.limits))
	for i := range list {
		list[i] = r.limit(i)
	}
	return list
}

func (r *Result) limit(i int) LimitResult {
	s := LimitResult{
		Limit:      r.set.limits[i],
		Cost:       r.costOf(i),
		Remaining:  r.answer.Remaining(r.set.LimitSet, i),
		Debt:       r.answer.Debt(r.set.LimitSet, i),
		ResetAfter: duration(r.answer.ResetAfter(r.set.LimitSet, i)),
	}
	if !r.answer.Allowed {
		s.RetryAfter = r.retryAfterOf(i)
		s.Violated = s.RetryAfter > 0
	}
	return s
}

// costOf returns how many tokens the request asked of the i-th limit.
func (r *Result) costOf(i int) int64 { return r.set.CostOf(i, r.Cost, r.each) }

// taken reports whether the decision took something that it can give back.
func (r *Result) taken() bool { return r.Allowed && !r.ShadowDenied && !r.untaken && r.set != nil }

// retryAfterOf returns in which time the i-th limit has what was asked.
func (r *Result) retryAfterOf(i int) time.Duration {
	micros := r.answer.RetryAfter(r.set.LimitSet, i, r.costOf(i))
	if micros == bucket.Never {
		return Never
	}
	return duration(micros)
}

// read sets r's fields from its answer to a request under p.
func (r *Result) read(p *limitSet, cost int64, each *[]int64) {
	a := &r.answer
	r.Allowed, r.Unused, r.Cost, r.Source, r.set, r.each = a.Allowed, a.Unused, cost, a.Source, p, each
	for i := range p.Rates {
		remaining, retry := a.Remaining(p.LimitSet, i), time.Duration(0)
		reset := duration(a.ResetAfter(p.LimitSet, i))
		if !a.Allowed {
			retry = r.retryAfterOf(i)
		}
		// The tightest limit is the one with the longest RetryAfter. Among
		// equals, as when the request is allowed, it is the one with the fewest
		// tokens left, and then the one that takes longest to fill.
		if i == 0 || retry > r.RetryAfter || retry == r.RetryAfter &&
			(remaining < r.Remaining || remaining == r.Remaining && reset > r.ResetAfter) {
			r.tightest = int32(i)
			r.Remaining = remaining
		}
		r.RetryAfter = max(r.RetryAfter, retry)
		r.ResetAfter = max(r.ResetAfter, reset)
	}
}

// readAgain sets r's fields from its answer, but for what was decided.
func (r *Result) readAgain() {
	allowed, source, cause := r.Allowed, r.Source, r.Cause
	r.RetryAfter, r.ResetAfter = 0, 0
	r.read(r.set, r.Cost, r.each)
	r.Allowed, r.Source, r.Cause = allowed, source, cause
	if allowed {
		r.RetryAfter = 0
	}
}

// keepDelays fixes the delays of a denial, whatever costs r shows later.
func (r *Result) keepDelays() {
	a := &r.answer
	if a.Allowed || r.set == nil {
		return
	}
	waits := make([]bucket.Waits, len(r.set.Rates))
	for i := range waits {
		waits[i] = bucket.Waits{Retry: a.RetryAfter(r.set.LimitSet, i, r.costOf(i)), Full: a.ResetAfter(r.set.LimitSet, i)}
	}
	a.Waits = &waits
}

// Release gives back the slots that the decision took of limits in flight, when
// the work is over. The tokens of other limits stay taken. It does nothing if
// there are no slots to give back: the request was denied, Release was called
// before, or MaxHold is over.
//
// Middleware releases by itself. Without it, defer Release where you have
// checked Allowed. ctx may have ended already. It costs one round trip to
// Redis. If the store does not answer, it returns [ErrUnavailable]. Don't call
// it again: a store with a circuit breaker releases the slots when it is back,
// and otherwise MaxHold does. [ErrNoDecision] means that no limiter returned
// this Result.
func (r *Result) Release(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
	if !r.hasSlots() {
		return nil
	}
	r.held.mu.Lock()
	defer r.held.mu.Unlock()
	if r.held.released {
		return nil
	}
	r.held.released = true
	r.held.inUse.lose(true)
	now := r.limiter.current()
	return r.limiter.release(context.WithoutCancel(ctx), now, r.releaseSet(now), r.Source, r.key, []bucket.Ending{r.held.ending()})
}

// releaseSet returns the limits by which r's slots are released. All of the
// policy is fastest, because it is what is stored. But another definition of
// its other limits must not be written, and no estimate must end.
func (r *Result) releaseSet(now *compiled) *bucket.LimitSet {
	if p := r.set.LimitSet; now.refundSet(r.key, r.Source) == p && !r.set.estimates {
		return p
	}
	return r.set.slots
}

// Hold says that the work goes on: the decision holds its slots, and its
// estimates that are not settled yet, for another MaxHold from now. Call it
// well before MaxHold is over. Middleware prolongs slots itself as long as a
// response takes. In a handler, Hold also says that the work outlasts the
// response, as on a hijacked connection: from then on hold and release the
// slots yourself.
//
// If a hold has ended already, Hold takes the slots again if they are free.
// Otherwise it returns [ErrExpired]: others have them, and the work should
// stop. [ErrSettled] means that nothing is left to hold. ctx may have ended
// already. Hold costs one round trip to Redis. After [ErrUnavailable] it can be
// called again.
func (r *Result) Hold(ctx context.Context) error {
	if r.limiter == nil {
		return ErrNoDecision
	}
	if r.held != nil {
		r.held.byApp.Store(true)
	}
	return r.extend(ctx)
}

// extend is Hold for middleware, which goes on to release the slots in the end.
func (r *Result) extend(ctx context.Context) error {
	h := r.held
	if h == nil || !r.taken() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := r.set.Of(func(rate *bucket.Rate) bool {
		return rate.Hold > 0 && (rate.Slots && !h.released || !rate.Slots && !h.settled) && h.tokens(r.set, r.set.IndexOf(rate.Tag)) > 0
	})
	if p == nil {
		return ErrSettled
	}
	each := make([]int64, len(p.Rates))
	for i := range each {
		each[i] = h.tokens(r.set, r.set.IndexOf(p.Rates[i].Tag))
	}
	l, now := r.limiter, r.limiter.current()
	hold := bucket.Request{Set: p, Action: bucket.Acquire, Each: &each, Ticket: h.ticket, Ends: bucket.Ending{Ticket: h.ticket, At: h.began}}
	a, err := l.storeOf(r.Source).Do(context.WithoutCancel(ctx), now.setOf(r.key).class.Request(now.storedKey(r.key), hold))
	if h.began = a.Now; err != nil {
		h.began = 0 // the store may have moved them, or not
		return l.failed(ctx, r.key, err)
	}
	if !a.Allowed {
		h.inUse.lose(false)
		return ErrExpired
	}
	_, held := r.slotsTaken()
	h.inUse.hold(held)
	return nil
}

// releaseSoon is Release for middleware, whose response must not wait for a
// store: it returns at once. Core does not repeat the release: a store that was
// away sends it later (see store.Later), or the slots end after MaxHold. If the
// app has called Hold, nothing is released.
func (r *Result) releaseSoon() {
	if !r.hasSlots() || r.held.byApp.Load() {
		return
	}
	if r.limiter.memory != nil || r.Source == FromFallback { // these never wait
		_ = r.Release(context.Background())
		return
	}
	if r.held.mu.TryLock() {
		r.startRelease()
		return
	}
	go func() { // a Hold is under way
		r.held.mu.Lock()
		r.startRelease()
	}()
}

// startRelease begins a release. It unlocks r.held.mu, which is held.
func (r *Result) startRelease() {
	defer r.held.mu.Unlock()
	if r.held.released {
		return
	}
	r.held.released = true
	r.held.inUse.lose(true)
	l, source, key := r.limiter, r.Source, strings.Clone(r.key) // which may be reused when the response is over
	now := l.current()
	p := r.releaseSet(now)
	l.releases.calls.Add(releasesOf{r.set.slots, key}, r.held.ending(), func(holds []bucket.Ending) error {
		_ = l.release(context.Background(), now, p, source, key, holds)
		return nil // it is not sent again: a store that was away does that itself, or MaxHold ends them
	})
}

// cancelTimeout is how long waits and decisions wait for cancels and releases.
const cancelTimeout = 50 * time.Millisecond

// releases are under way. Those of one key share calls.
type releases struct {
	calls gather.Calls[releasesOf, bucket.Ending]
}

// releasesOf is what releases have in common that share a call.
type releasesOf struct {
	slots *bucket.LimitSet
	key   string
}

// wait waits until the releases of key that are under way are done, so that a
// decision of this process comes after them. It waits for at most
// cancelTimeout, because a store may not answer.
func (r *releases) wait(ctx context.Context, slots *bucket.LimitSet, key string) error {
	done := r.calls.Pending(releasesOf{slots, key})
	if done == nil {
		return nil
	}
	timer := time.NewTimer(cancelTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return hook.Done(ctx.Err())
	}
	return nil
}

// held is what a decision holds: its slots, and its estimates of limits with a
// MaxHold. All copies of a Result share it.
type held struct {
	ticket int64 // of the holds
	cost   int64 // Result.Cost and Result.each of the decision
	each   *[]int64

	mu       sync.Mutex // guards all below; held while something is sent, so that one call follows another
	began    int64      // when the holds began, in µs since 1970 on the store's clock; 0: not known
	released bool       // the slots were, or are about to be
	settled  bool       // the estimates were, or are about to be

	byApp atomic.Bool // the app has called Hold, and releases by itself

	inUse *inUse // set before the decision is returned
}

// newTicket returns a ticket that no other hold has.
func newTicket() int64 {
	return bucket.FirstReturning + rand.Int64N(1<<53-bucket.FirstReturning)
}

// newHeld returns what a decision under p holds, or nil.
func newHeld(p *limitSet, ticket, began, cost int64, each *[]int64) *held {
	h := &held{ticket: ticket, cost: cost, each: each, began: began}
	for i := range p.Rates {
		if p.Rates[i].Hold > 0 && h.tokens(p, i) > 0 {
			return h
		}
	}
	return nil
}

// tokens is what h holds, if the i-th limit of p holds anything.
func (h *held) tokens(p *limitSet, i int) int64 { return p.CostOf(i, h.cost, h.each) }

// ending is what ends h, and puts back all that it holds. h.mu is held.
func (h *held) ending() bucket.Ending {
	return bucket.Ending{Ticket: h.ticket, At: h.began, Back: bucket.MaxHeld}
}
