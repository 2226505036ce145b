package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"
)

// Observer is told of each decision: for metrics, traces and logs. It is called by the goroutine that
// asked, after the decision and before its caller has it, so it must be quick and must not block. It is
// safe for concurrent use. Peeks, refunds and resets are not decisions.
type Observer func(ctx context.Context, o Observation)

// Observation is one decision, as an [Observer] is told of it.
type Observation struct {
	Policy   string        // its name
	Limit    string        // the name of the limit that mattered most; "" when nothing is known of any
	Outcome  Outcome       // what became of the request
	Source   Source        // who decided; FromStore for an error too
	Cost     int64         // tokens that were asked for; a client that chooses its cost chooses this, up to the largest int64
	Capacity int64         // the most that one request can take: the smallest Capacity of the policy's limits
	Latency  time.Duration // from the question to the answer, waits for others and the fallback included
	Err      error         // of OutcomeError; else why the store could not decide, or nil
	Key      string        // "" unless WithObservedKeys
}

// Outcome is what became of a request.
type Outcome uint8

const (
	// OutcomeAllowed requests may go on.
	OutcomeAllowed Outcome = iota
	// OutcomeDenied requests lack tokens.
	OutcomeDenied
	// OutcomeShadowDenied requests lack tokens, and go on since the policy is in shadow mode.
	OutcomeShadowDenied
	// OutcomeError is no decision: the store is away and the policy fails closed, or the caller left.
	OutcomeError
)

// String names the outcome in lower case, as metrics do.
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
	}
	return "Outcome(" + itoa(int64(o)) + ")"
}

// LimiterOption is an option of [NewLimiter].
type LimiterOption interface{ observe(*watch) }

type limiterOption func(*watch)

func (o limiterOption) observe(w *watch) { o(w) }

// WithObserver has o told of each decision of the limiter. Given several times, all are told, in their
// order. A nil one is left out; without any, nothing is measured and decisions cost nothing more.
func WithObserver(o Observer) LimiterOption {
	return limiterOption(func(w *watch) {
		if o != nil {
			w.observers = append(w.observers, o)
		}
	})
}

// WithObservedKeys puts keys into observations. Think of privacy, and of metrics: each key is a series.
func WithObservedKeys() LimiterOption {
	return limiterOption(func(w *watch) { w.keys = true })
}

// LoggerOption is an option of [NewLimiter] and of stores.
type LoggerOption struct{ logger *slog.Logger }

// WithLogger has a limiter log each request that it denies, or would in shadow mode, at level debug, and a
// store its warnings, such as that Redis does not answer. Without it, limiters log nothing and stores log to
// [slog.Default]. Keys are logged as the first 12 hex digits of their SHA-256: lines of one client can be
// told, but an address is found by trying all, so they are no less personal data. Nil is as without it.
func WithLogger(logger *slog.Logger) LoggerOption { return LoggerOption{logger} }

func (o LoggerOption) observe(w *watch) { w.logger = o.logger }

// ConfigureStore sets the logger.
func (o LoggerOption) ConfigureStore(c *StoreConfig) { c.Logger = o.logger }

// watch is who is told of a limiter's decisions.
type watch struct {
	observers []Observer
	logger    *slog.Logger
	keys      bool
}

// active reports whether anybody is told.
func (w *watch) active() bool { return len(w.observers) > 0 || w.logger != nil }

// tell tells of a decision that took d.
func (w *watch) tell(ctx context.Context, policy string, capacity int64, res *Result, key string, d time.Duration, err error) {
	o := Observation{Policy: policy, Capacity: capacity, Limit: res.limitName(), Source: res.Source, Cost: res.Cost, Latency: d, Err: res.Cause}
	switch {
	case err != nil:
		o.Outcome, o.Err = OutcomeError, err
	case res.ShadowDenied:
		o.Outcome = OutcomeShadowDenied
	case !res.Allowed:
		o.Outcome = OutcomeDenied
	}
	if w.keys {
		o.Key = key
	}
	for _, observer := range w.observers {
		observer(ctx, o)
	}
	denied := o.Outcome == OutcomeDenied || o.Outcome == OutcomeShadowDenied
	if denied && w.logger != nil && w.logger.Enabled(ctx, slog.LevelDebug) {
		sum := sha256.Sum256([]byte(key))
		w.logger.LogAttrs(ctx, slog.LevelDebug, "ratelimit: "+o.Outcome.String(),
			slog.String("policy", o.Policy), slog.String("limit", o.Limit), slog.String("key", hex.EncodeToString(sum[:6])),
			slog.Int64("cost", o.Cost), slog.Duration("retry_after", res.retryAfter()), slog.String("source", o.Source.String()))
	}
}

// limitName is the name of the limit that matters most.
func (r *Result) limitName() string {
	if r.plan == nil {
		return ""
	}
	return r.plan.limits[r.tightest].Name
}

// retryAfter is RetryAfter, and in shadow mode what it would be.
func (r *Result) retryAfter() time.Duration {
	longest := time.Duration(0)
	if r.plan != nil && !r.answer.Allowed {
		for i := range r.plan.limits {
			longest = max(longest, r.retryAfterOf(i))
		}
	}
	return longest
}
