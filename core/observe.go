package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"
)

// Observer receives each decision, for metrics, traces and logs. The goroutine that asked for the decision calls the
// Observer before it returns the decision, so an Observer must be quick and must not block. It must be safe for
// concurrent use. Peeks, refunds and resets are not decisions. Neither are settlements and debits, but the Observer
// receives those that failed: see [OutcomeUnsettled].
type Observer func(ctx context.Context, o Observation)

// Observation describes one decision, or one failed settlement, to an [Observer].
type Observation struct {
	Policy   string        // the policy's name
	Limit    string        // the name of the tightest limit; "" if no store or fallback decided
	Unit     string        // what Limit counts, such as [Requests]; "" if Limit is ""
	Outcome  Outcome       // the result of the request
	Source   Source        // who decided; FromStore for an error too
	Cost     int64         // requests asked for, not other units; if clients choose their cost, they choose this, up to the largest int64
	Capacity int64         // the most requests that one request can take: the smallest Capacity of the limits that count them, or 0
	Latency  time.Duration // from the call to the decision, including waits for other requests and the fallback
	Err      error         // the error of OutcomeError and OutcomeUnsettled; else why the store could not decide, or nil
	Key      string        // "" without WithObservedKeys
}

// Outcome is the result of a request.
type Outcome uint8

const (
	// OutcomeAllowed means that the request is allowed.
	OutcomeAllowed Outcome = iota
	// OutcomeDenied means that the request is denied: a limit lacks tokens.
	OutcomeDenied
	// OutcomeShadowDenied means that a limit lacks tokens, and the request is allowed because of shadow mode.
	OutcomeShadowDenied
	// OutcomeError means that there is no decision: the store can't answer and the policy fails closed, or the
	// caller's context has ended.
	OutcomeError
	// OutcomeUnsettled means that a Settle or a Debit failed, or that AllowTogether could not give back what it took: the
	// bucket may hold too many or too few tokens. It is not a decision: Limit, Cost and Capacity are zero. Source is where
	// the bucket is.
	OutcomeUnsettled
)

// String returns the outcome's name in lower case, as metrics use it.
func (o Outcome) String() string {
	switch o {
	case OutcomeAllowed:
		return "allowed"
	case OutcomeDenied:
		return "denied"
	case OutcomeShadowDenied:
		return "shadow-denied"
	case OutcomeError:
		return "error"
	case OutcomeUnsettled:
		return "unsettled"
	}
	return "Outcome(" + itoa(int64(o)) + ")"
}

// LimiterOption is an option of [NewLimiter].
type LimiterOption interface{ observe(*watch) }

type limiterOption func(*watch)

func (o limiterOption) observe(w *watch) { o(w) }

// WithObserver calls o with each decision of the limiter. The option can be repeated: the limiter calls all observers,
// in order. It ignores a nil one. Without any observer or logger it measures nothing, so decisions cost nothing more.
func WithObserver(o Observer) LimiterOption {
	return limiterOption(func(w *watch) {
		if o != nil {
			w.observers = append(w.observers, o)
		}
	})
}

// WithObservedKeys sets Observation.Key. Keys can be personal data, and as a label of a metric each key is a series.
func WithObservedKeys() LimiterOption {
	return limiterOption(func(w *watch) { w.keys = true })
}

// LoggerOption is an option of [NewLimiter] and of stores.
type LoggerOption struct{ logger *slog.Logger }

// WithLogger sets the logger of a limiter or a store. A limiter logs each request that it denies, or would deny without
// shadow mode, at level debug. A store logs its warnings, such as that Redis does not answer. Without WithLogger, or
// with nil, limiters log nothing and stores log to [slog.Default].
//
// A key is logged as the first 12 hex digits of its SHA-256, so that a client's lines can be correlated. That is still
// personal data: an address can be found by trying all.
func WithLogger(logger *slog.Logger) LoggerOption { return LoggerOption{logger} }

func (o LoggerOption) observe(w *watch) { w.logger = o.logger }

// ConfigureStore sets the logger.
func (o LoggerOption) ConfigureStore(c *StoreConfig) { c.Logger = o.logger }

// watch is what a limiter reports its decisions to.
type watch struct {
	observers []Observer
	logger    *slog.Logger
	keys      bool
}

// active reports whether there is anything to report to.
func (w *watch) active() bool { return len(w.observers) > 0 || w.logger != nil }

// report calls the observers with a decision that took d, and logs it if it is a denial.
func (w *watch) report(ctx context.Context, policy string, capacity int64, res *Result, key string, d time.Duration, err error) {
	o := Observation{Policy: policy, Capacity: capacity, Source: res.Source, Cost: res.Cost, Latency: d, Err: res.Cause}
	o.Limit, o.Unit = res.tightestLimit()
	switch {
	case err != nil:
		o.Outcome, o.Err = OutcomeError, err
	case res.ShadowDenied:
		o.Outcome = OutcomeShadowDenied
	case !res.Allowed:
		o.Outcome = OutcomeDenied
	}
	w.call(ctx, o, key)
	denied := o.Outcome == OutcomeDenied || o.Outcome == OutcomeShadowDenied
	if denied && w.logger != nil && w.logger.Enabled(ctx, slog.LevelDebug) {
		sum := sha256.Sum256([]byte(key))
		w.logger.LogAttrs(ctx, slog.LevelDebug, "ratelimit: "+o.Outcome.String(),
			slog.String("policy", o.Policy), slog.String("limit", o.Limit), slog.String("key", hex.EncodeToString(sum[:6])),
			slog.Int64("cost", o.Cost), slog.Duration("retry_after", res.retryAfter()), slog.String("source", o.Source.String()))
	}
}

// call calls the observers with o, which is about key.
func (w *watch) call(ctx context.Context, o Observation, key string) {
	if w.keys {
		o.Key = key
	}
	for _, observer := range w.observers {
		observer(ctx, o)
	}
}

// tightestLimit returns the name of the tightest limit and what it counts, or "" if no limit decided.
func (r *Result) tightestLimit() (name, unit string) {
	if r.plan == nil {
		return "", ""
	}
	l := &r.plan.limits[r.tightest]
	return l.Name, l.unit()
}

// retryAfter returns RetryAfter as it would be without shadow mode.
func (r *Result) retryAfter() time.Duration {
	longest := time.Duration(0)
	if r.plan != nil && !r.answer.Allowed {
		for i := range r.plan.limits {
			longest = max(longest, r.retryAfterOf(i))
		}
	}
	return longest
}
