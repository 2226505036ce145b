package clientlimit

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Option is an option of [New].
type Option func(*config)

type config struct {
	limiter  *core.Limiter
	key      KeyFunc
	units    func(*http.Request) (core.Units, error)
	settle   func(res *http.Response, end []byte) core.Units
	refusal  func(res *http.Response, start []byte) Refusal // nil: ReadRefusal
	queue    int
	attempts int
	maxWait  time.Duration
	mistakes []error
}

// mistake notes a mistake in an option.
func (c *config) mistake(option string, value any, reason string) {
	c.mistakes = append(c.mistakes, &core.ConfigError{Field: fmt.Sprintf("clientlimit.%s", option), Value: value, Reason: reason})
}

// WithLimiter has each request take a token of its key from limiter, and wait
// until there is one. Processes whose limiters share a store share the tokens.
// Pauses after refusals hold besides. What answers call left does not count.
func WithLimiter(limiter *core.Limiter, key KeyFunc) Option {
	return func(c *config) {
		if limiter == nil {
			c.mistake("WithLimiter limiter", nil, "must be a limiter from core.NewLimiter")
		}
		if key == nil {
			c.mistake("WithLimiter key", nil, "must be a key function, such as clientlimit.ByHost()")
		}
		c.limiter, c.key = limiter, key
	}
}

// WithKey sets what requests have in common that wait together, without a
// limiter. The default is [ByHost].
func WithKey(key KeyFunc) Option {
	return func(c *config) {
		if key == nil {
			c.mistake("WithKey", nil, "must be a key function, such as clientlimit.ByHost()")
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
// keep what was taken, and nil changes nothing. See [core.Result.Settle].
//
// settle is called once for each request that was answered, when the caller has
// read the body to its end or closed it. end is up to 64 KiB of what the caller
// has read last: the usage that a language model reports stands there. settle
// must not read the body of res. It is not called for a refused request: what
// [WithUnits] said comes back.
func WithSettle(settle func(res *http.Response, end []byte) core.Units) Option {
	return func(c *config) { c.settle = settle }
}

// WithRefusal sets which answers are refusals, and for how long to wait after
// them. The default is [ReadRefusal], which read can call for all answers that
// it does not know.
//
// start is up to 16 KiB of the body, of answers with a status of 400 and above;
// otherwise it is nil. read must not read the body of res. What has not come of
// start within a second is cut off, for read and for the caller.
func WithRefusal(read func(res *http.Response, start []byte) Refusal) Option {
	return func(c *config) { c.refusal = read }
}

// WithQueue sets how many requests can wait for one key behind the one whose
// turn it is: at least 0, by default 1,000. What comes beyond fails with
// [ErrQueueFull].
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
		c.maxWait = d
	}
}
