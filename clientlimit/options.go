package clientlimit

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/outgoing"
)

// Option is an option of [New].
type Option func(*config)

type config struct {
	name      string
	limiter   *core.Limiter
	key       KeyFunc
	units     func(*http.Request) (core.Units, error)
	settle    func(*Answer) core.Units
	queue     int
	attempts  int
	longest   time.Duration
	retryOf   func(*http.Request) bool
	shared    *outgoing.Shared
	observers []func(context.Context, Event)
	jitter    func(most time.Duration) time.Duration // of tests; nil: a random one
	mistakes  []error
}

// mistake notes a mistake in an option.
func (c *config) mistake(option string, value any, reason string) {
	c.mistakes = append(c.mistakes, &core.ConfigError{Field: fmt.Sprintf("clientlimit.%s", option), Value: value, Reason: reason})
}

// WithLimiter has each request take a token of its key from limiter, and wait
// until there is one. Processes whose limiters share a store share the tokens.
// Refusals count besides: they begin pauses, and slow the Transport down. What
// answers call left does not.
func WithLimiter(limiter *core.Limiter, key KeyFunc) Option {
	return func(c *config) {
		if limiter == nil {
			c.mistake("WithLimiter limiter", nil, "must be a limiter from core.NewLimiter")
		}
		if key == nil {
			c.mistake("WithLimiter key", nil, "must be a key function, such as clientlimit.ByHost()")
			return
		}
		c.limiter = limiter
		WithKey(key)(c)
	}
}

// WithKey sets what requests have in common that wait together, without a
// limiter. The default is [ByHost].
func WithKey(key KeyFunc) Option {
	return func(c *config) {
		if key == nil {
			c.mistake("WithKey", nil, "must be a key function, such as clientlimit.ByHost()")
			return
		}
		if err := middleware.ArgumentError(key); err != nil {
			c.mistakes = append(c.mistakes, err)
		}
		c.key = key
	}
}

// WithUnits sets what a request takes besides one request, such as an estimate
// of its tokens: see [core.Units]. An error is that of the request. Without a
// limiter the estimate says how many requests the tokens are enough for that
// the answers call left.
func WithUnits(units func(*http.Request) (core.Units, error)) Option {
	return func(c *config) { c.units = units }
}

// WithSettle corrects what a request took when its answer is over, also a
// streamed one: settle returns what it really took. Units that it leaves out
// keep what was taken, and nil changes nothing. See [core.Result.Settle]. It is
// called once for each request that was answered, when the caller has read the
// body to its end or closed it. It is not called for a refused request: what
// [WithUnits] said comes back.
func WithSettle(settle func(*Answer) core.Units) Option {
	return func(c *config) { c.settle = settle }
}

// WithQueue sets how many requests can wait for one key: at least 0, by default
// 1,000. Requests of a batch have as many places of their own. What comes
// beyond fails with [ErrQueueFull].
func WithQueue(n int) Option {
	return func(c *config) {
		if n < 0 {
			c.mistake("WithQueue", n, "must be at least 0")
		}
		c.queue = n
	}
}

// WithAttempts sets how often a request is sent at most: at least once, by
// default 5 times. With 1 the caller gets each refusal.
func WithAttempts(n int) Option {
	return func(c *config) {
		if n < 1 {
			c.mistake("WithAttempts", n, "must be at least 1")
		}
		c.attempts = n
	}
}

// WithMaxWait sets for how long a request can wait in all, whatever the
// deadline of its context: more than 0, by default a minute. The time in which
// the service answers does not count.
func WithMaxWait(d time.Duration) Option {
	return func(c *config) {
		if d <= 0 {
			c.mistake("WithMaxWait", d, "must be more than 0")
		}
		c.longest = d
	}
}

// WithRetryOf says which requests may be sent again although they may have been
// executed and their method is not idempotent, such as those with a key of
// their own by which the service knows them again.
func WithRetryOf(may func(*http.Request) bool) Option {
	return func(c *config) { c.retryOf = may }
}

// WithSharedPauses has all processes pause that share a store, when one of them
// is refused. Others learn of a pause within 100 ms. It costs a round trip to
// the store in that time for each key in use. A store that does not answer
// pauses nobody.
func WithSharedPauses(store core.Store) Option {
	return func(c *config) {
		if v := reflect.ValueOf(store); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			c.mistake("WithSharedPauses", nil, "must be a store, such as that of the limiter")
			return
		}
		shared, err := outgoing.NewShared(store)
		if err != nil {
			c.mistakes = append(c.mistakes, err)
		}
		c.shared = shared
	}
}

// WithObserver has observe called with what happens to requests. It must return
// soon, and be safe for concurrent use. promlimit and otellimit have such
// functions.
func WithObserver(observe func(context.Context, Event)) Option {
	return func(c *config) {
		if observe == nil {
			c.mistake("WithObserver", nil, "must be a function")
			return
		}
		c.observers = append(c.observers, observe)
	}
}

// WithName sets the name of the client, for observers: it tells several clients
// of one process apart.
func WithName(name string) Option {
	return func(c *config) { c.name = name }
}

// Event is something that happened to a request: see [WithObserver].
type Event = outgoing.Event

// Kind is the kind of an [Event].
type Kind = outgoing.Kind

// The kinds of an [Event].
const (
	Queued     = outgoing.Queued     // a request begins to wait, or ends it: Event.Queued is 1 or -1
	Sent       = outgoing.Sent       // a request is sent, after it has waited for Event.Wait
	SentAgain  = outgoing.SentAgain  // a refused request is about to be sent again; Sent follows
	Refused    = outgoing.Refused    // the service has refused a request
	Paused     = outgoing.Paused     // the key pauses until Event.Until
	TurnedAway = outgoing.TurnedAway // a request is not sent, for the reason Event.Err
)

// AsBatch returns a context whose requests are a batch: they wait until no
// others do, but for each eighth turn, which is theirs.
func AsBatch(ctx context.Context) context.Context {
	return outgoing.AsBatch(ctx)
}
