package redisstore

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Option is an option of [New]: one of this package, [core.WithClock] or [core.WithLogger].
type Option interface{ core.StoreOption }

// settings are what options set.
type settings struct {
	prefix   string
	timeout  time.Duration
	failures int           // in a row, that open the breaker
	pause    time.Duration // how long it stays open
	horizon  time.Duration // how long a denial is repeated; 0: never
	lease    int64         // the most tokens on lease of a key; 0: none
}

// option is an Option that only this store has.
type option func(*settings, *core.StoreConfig)

// ConfigureStore reports an option that was given to another store. New does not call it.
func (option) ConfigureStore(c *core.StoreConfig) {
	c.Mistake("redisstore option", "given", "to another store: it is for redisstore.New alone")
}

// defaults are the settings without any option.
func defaults() settings {
	return settings{
		prefix: "ratelimit:", timeout: 100 * time.Millisecond, failures: 5, horizon: time.Second,
		pause: 500 * time.Millisecond, // with the timeout of the try that follows it bounds how long a recovery goes unnoticed
	}
}

// WithPrefix sets what every key begins with: by default "ratelimit:". It may be anything, "" too. Two stores with one
// prefix on one server share buckets. A prefix with a hash tag, such as "{limits}:", puts all keys of the store into one
// Cluster slot.
func WithPrefix(prefix string) Option {
	return option(func(s *settings, _ *core.StoreConfig) { s.prefix = prefix })
}

// WithTimeout bounds how long a decision may take: by default 100 ms. Then the policy's OnFailure decides. It should be
// above two round trips to the server, for a decision may have to wait for a call that is under way. Setting up a
// connection takes more, and is not part of it: a connection has a second, or ten times the timeout if that is longer.
// The timeout is the store's own. The client's timeouts hold as well, and so does a deadline in the context.
func WithTimeout(d time.Duration) Option {
	return option(func(s *settings, c *core.StoreConfig) {
		if d <= 0 {
			c.Mistake("WithTimeout", d, "must be above 0")
			return
		}
		s.timeout = d
	})
}

// WithBreaker sets after how many failed calls in a row the store stops asking Redis, and for how long: by default 5, and
// 500 ms. Meanwhile the policy's OnFailure decides at once. Then one call tries again, and if it succeeds all do. What
// counts is the time since a call was sent: a decision that waits for others, in this process, is no failure of Redis.
// Calls that were under way together and fail count once.
func WithBreaker(failures int, pause time.Duration) Option {
	return option(func(s *settings, c *core.StoreConfig) {
		if failures < 1 {
			c.Mistake("WithBreaker failures", failures, "must be at least 1")
		}
		if pause <= 0 {
			c.Mistake("WithBreaker pause", pause, "must be above 0")
		}
		s.failures, s.pause = failures, pause
	})
}

// WithDenyCache sets how long the store may repeat a denial without asking Redis: by default up to 1 second, 0 for
// never. A bucket that denied a cost and said "retry in t" can't have that cost before t, unless somebody returns tokens
// or resets it. So until t, but no longer than this, the same key is denied in this process, with the RetryAfter that
// follows from that answer and no round trip. A Refund or Reset by this store ends it before it is sent. Until it is
// answered (or, if it never is, for a minute) every decision on its key asks Redis. A Refund or Reset by another process
// is seen when the horizon is over. The cache holds at most 65,536 keys.
func WithDenyCache(horizon time.Duration) Option {
	return option(func(s *settings, c *core.StoreConfig) {
		if horizon < 0 {
			c.Mistake("WithDenyCache", horizon, "must not be negative")
			return
		}
		s.horizon = horizon
	})
}

// WithLease lets the store take tokens of busy keys ahead and decide in this process while they last: for a key that is
// asked for more often than one Redis can decide. By default, and with 0, each decision asks Redis.
//
// A key that is asked for again within 50 ms leases tokens with its next decision: one at first, then twice as many each
// time they are used up within 50 ms, up to n, a tenth of the smallest Capacity, and half of what the bucket has left. A
// lease that is not used for 100 to 200 ms is returned. It ends after 2 s.
//
// Leases admit nothing beyond the limits: leased tokens have left the bucket, and it does not refill behind them until
// the lease has ended. The price is that a process may hold up to n tokens that others could use: for up to 200 ms after
// its last request, or 2 s when it dies. RetryAfter counts on the end of leases. Tokens are lost, until they refill, when
// a process ends with a lease, and when the call that brings or settles one gets no answer.
//
// Leases are for Allow and AllowN, of one list of limits a key. While one is held, Redis decides requests under other
// limits as if the lease were another process's. Peek, Reserve, Wait, AllowTogether, and requests that cost more than is
// left of the lease settle it with their call. Up to 65,536 keys are watched for being busy.
//
// Decisions on leased tokens have the Source [core.FromLease] and cost no round trip and no allocation. Their Remaining
// is what the bucket had when the lease was taken, refilled, less what this process has used. It learns of others' use
// with the next lease. A Reset leaves other processes their leases.
func WithLease(n int64) Option {
	return option(func(s *settings, c *core.StoreConfig) {
		if n < 0 {
			c.Mistake("WithLease", n, "must not be negative")
			return
		}
		s.lease = n
	})
}
