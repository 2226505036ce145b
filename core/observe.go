package core

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Observation describes one decision, one failed settlement, or slots that are
// no longer in use: see [WithObserver].
type Observation struct {
	Policy    string        // the policy's name
	Limit     string        // the name of the tightest limit; "" if no store or fallback decided
	Unit      string        // what Limit counts, such as [Requests]; "" if Limit is ""
	Outcome   Outcome       // the result of the request
	Source    Source        // who decided; FromStore for an error too
	Cost      int64         // requests asked for, not other units; if clients choose their cost, they choose this, up to the largest int64
	Capacity  int64         // the most requests that one request can take: the smallest Capacity of the limits that count them, or 0
	Penalized bool          // the denial made a debt, which later ones don't: see [Limit.WithPenalty]
	Slots     int64         // slots that the decision took, of all limits in flight; of OutcomeSlots how many more are in use, or fewer
	Latency   time.Duration // from the call to the decision, including waits for other requests and the fallback
	Err       error         // the error of OutcomeError and OutcomeUnsettled; else why the store could not decide, or nil
	Key       string        // personal data, perhaps; valid until the observer returns: clone what you keep
}

// Outcome is the result of a request.
type Outcome uint8

const (
	// OutcomeAllowed means that the request is allowed.
	OutcomeAllowed Outcome = iota
	// OutcomeDenied means that the request is denied: a limit lacks tokens.
	OutcomeDenied
	// OutcomeShadowDenied means that a limit lacks tokens, and the request is
	// allowed because of shadow mode.
	OutcomeShadowDenied
	// OutcomeError means that there is no decision: the store can't answer and
	// the policy fails closed, or the caller's context has ended.
	OutcomeError
	// OutcomeUnsettled means that a Settle or a Debit failed, or that
	// AllowTogether could not give back what it took: the bucket may hold too
	// many or too few tokens. It is not a decision: Limit, Cost and Capacity
	// are zero. Source is where the bucket is.
	OutcomeUnsettled
	// OutcomeSlots means that slots of an earlier decision are released, or
	// that their MaxHold is over: Slots is below 0. Above 0, a late Hold has
	// taken them again. So the sum of Slots is how many this process uses. It
	// is not a decision: Limit, Cost, Capacity and Latency are zero.
	OutcomeSlots
)

// outcomes are the names of outcomes, as metrics use them.
var outcomes = [...]string{"allowed", "denied", "shadow-denied", "error", "unsettled", "slots"}

// String returns the outcome's name in lower case, as metrics use it.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return "Outcome(" + strconv.Itoa(int(o)) + ")"
}

// LimiterOption is an option of [NewLimiter].
type LimiterOption interface{ observe(*watch) }

type limiterOption func(*watch)

func (o limiterOption) observe(w *watch) { o(w) }

// WithObserver calls observe with each decision of the limiter, for metrics,
// traces and logs. The goroutine that asked for the decision calls it before it
// returns the decision, so observe must be quick and must not block. It must be
// safe for concurrent use. Peeks, refunds and resets are not decisions. Neither
// are settlements and debits, but observe receives those that failed: see
// [OutcomeUnsettled]. Of slots it also receives when they are no longer in use,
// perhaps from another goroutine: see [OutcomeSlots].
//
// The option can be repeated: the limiter calls all observers, in order. It
// ignores a nil one. Without any observer or logger it measures nothing, so
// decisions cost nothing more.
func WithObserver(observe func(context.Context, Observation)) LimiterOption {
	return limiterOption(func(w *watch) {
		if observe != nil {
			w.observers = append(w.observers, observe)
		}
	})
}

// WithPolicyObserver calls observe with the policy that is in force, for
// metrics and logs: once by NewLimiter, and after each change, one call at a
// time, before the call that changes it returns. All limits of now, and of its
// Plans, have the names that metrics and headers show. changes are what
// changed, in words: `limit "api": 100/min, was 60/min`. Overrides and blocked
// keys are only counted there. changes is nil for NewLimiter.
//
// observe must be safe for concurrent use, because several limiters may have
// it, and must not call SetPolicy. The option can be repeated. The limiter
// ignores a nil one. Limiters that WithLimits returns are not reported.
func WithPolicyObserver(observe func(now Policy, changes []string)) LimiterOption {
	return limiterOption(func(w *watch) {
		if observe != nil {
			w.policyObservers = append(w.policyObservers, observe)
		}
	})
}

// WithLogger sets the logger of a limiter or a store. A limiter logs each
// request that it denies, or would deny without shadow mode, at level debug,
// and what SetPolicy changed, at level info. Its middleware logs there too. A
// store logs its warnings, such as that Redis does not answer. Without
// WithLogger, or with nil, limiters log no denials, changes go to the store's
// logger if that has one, and warnings go there or to [slog.Default].
//
// The log shows no keys, which can be personal data: observers have them.
func WithLogger(logger *slog.Logger) interface {
	LimiterOption
	store.Option
} {
	return loggerOption{logger}
}

type loggerOption struct{ logger *slog.Logger }

func (o loggerOption) observe(w *watch) { w.logger = o.logger }

func (o loggerOption) ConfigureStore(c *store.Config) { c.Logger = o.logger }

// watch is what a limiter reports its decisions to.
type watch struct {
	observers       []func(context.Context, Observation)
	policyObservers []func(now Policy, changes []string)
	logger          *slog.Logger
	mistakes        []error       // in options
	store           *store.Config // of the limiter's store; an empty one if that has none
}

// active reports whether there is anything to report to.
func (w *watch) active() bool { return len(w.observers) > 0 || w.logger != nil }

// report observes a decision that took d, and logs a denial.
func (w *watch) report(ctx context.Context, policy string, capacity, slots int64, res *Result, key string, d time.Duration, err error) {
	o := Observation{Policy: policy, Capacity: capacity, Source: res.Source, Cost: res.Cost, Slots: slots, Penalized: res.answer.Penalty, Latency: d, Err: res.Cause, Key: key}
	o.Limit, o.Unit = res.tightestLimit()
	switch {
	case err != nil:
		o.Outcome, o.Err = OutcomeError, err
	case res.ShadowDenied:
		o.Outcome = OutcomeShadowDenied
	case !res.Allowed:
		o.Outcome = OutcomeDenied
	}
	w.call(ctx, o)
	denied := o.Outcome == OutcomeDenied || o.Outcome == OutcomeShadowDenied
	if denied && w.logger != nil && w.logger.Enabled(ctx, slog.LevelDebug) {
		w.logger.LogAttrs(ctx, slog.LevelDebug, "ratelimit: "+o.Outcome.String(),
			slog.String("policy", o.Policy), slog.String("limit", o.Limit),
			slog.Int64("cost", o.Cost), slog.Duration("retry_after", res.retryAfter()), slog.String("source", o.Source.String()))
	}
}

// call calls the observers with o.
func (w *watch) call(ctx context.Context, o Observation) {
	for _, observe := range w.observers {
		observe(ctx, o)
	}
}

// warnings is the logger of the limiter, else its store's, else the default.
func (w *watch) warnings() *slog.Logger {
	switch {
	case w.logger != nil:
		return w.logger
	case w.store.Logger != nil:
		return w.store.Logger
	}
	return slog.Default()
}

// unreadablePace is how often a store's unreadable keys are logged at most.
const unreadablePace = time.Minute

// reportUnreadable counts and logs err if key's state can't be used.
func (w *watch) reportUnreadable(policy, key string, err error) {
	bad := (*store.StateError)(nil)
	if !errors.As(err, &bad) || !w.store.Limiters.Unreadable.Note(unreadablePace) {
		return
	}
	// Only bad: what wraps it may show the key.
	w.warnings().Warn("ratelimit: the stored state of a key can't be used, so the policy's OnFailure decides for it; Reset makes the key usable; logged at most once a minute",
		"code", "RL716", "policy", policy, "error", bad)
}

// logPolicy logs what SetPolicy or SetExceptions changed, if the limiter or its
// store has a logger.
func (w *watch) logPolicy(now Policy, changes []string) {
	if w.logger != nil || w.store.Logger != nil {
		w.warnings().Info("ratelimit: the policy has changed", "policy", now.Name, "changes", strings.Join(changes, "; "))
	}
}

// reportPolicy calls the observers with a policy that is in force from now on.
// changes is nil if NewLimiter made the limiter.
func (w *watch) reportPolicy(now Policy, changes []string) {
	for _, observe := range w.policyObservers {
		observe(now.named(), changes)
	}
}

// tightestLimit returns the tightest limit's name and unit, if one decided.
func (r *Result) tightestLimit() (name, unit string) {
	if r.set == nil {
		return "", ""
	}
	return r.set.limits[r.tightest].Name, r.set.units[r.tightest]
}

// retryAfter returns RetryAfter as it would be without shadow mode.
func (r *Result) retryAfter() time.Duration {
	longest := time.Duration(0)
	if r.set != nil && !r.answer.Allowed {
		for i := range r.set.limits {
			longest = max(longest, r.retryAfterOf(i))
		}
	}
	return longest
}
