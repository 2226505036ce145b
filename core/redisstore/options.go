package redisstore

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Option is an option of [New]: one of this package, [core.WithClock] or
// [core.WithLogger].
type Option interface{ store.Option }

// settings are what options set.
type settings struct {
	prefix   string
	timeout  time.Duration
	failures int           // so many in a row open the breaker
	pause    time.Duration // how long the breaker stays open
	horizon  time.Duration // how long a denial is repeated; 0: never
	lease    int64         // the largest lease of a key, in tokens; 0: no leases
}

// option is an Option that only this store takes.
type option func(*settings, *store.Config)

// ConfigureStore reports a mistake: another store was given the option. New
// does not call it.
func (option) ConfigureStore(c *store.Config) {
	c.ArgumentError("redisstore option", "given", "to another store: it is for redisstore.New alone")
}

// defaults are the settings without any option.
func defaults() settings {
	return settings{
		prefix: "ratelimit:", timeout: 100 * time.Millisecond, failures: 5, horizon: time.Second,
		pause: 500 * time.Millisecond, // the store notices that Redis is back within this pause and one timeout
	}
}

// settingsOf returns the settings of options. It applies the options that all
// stores take to config.
func settingsOf(options []Option, config *store.Config) settings {
	set := defaults()
	for _, o := range options {
		switch o := o.(type) {
		case nil:
		case option:
			o(&set, config)
		default:
			o.ConfigureStore(config)
		}
	}
	if config.MaxKeys != 0 {
		config.ArgumentError("WithMaxKeys", config.MaxKeys, "is for core.NewMemoryStore alone: in Redis maxmemory is the bound")
	}
	return set
}

// WithPrefix sets how every key in Redis begins: by default "ratelimit:". The
// prefix may be anything without braces, also "". Stores share buckets if they have the same
// prefix on one server: in Redis, "%:" follows every prefix but those with a
// single colon at the end. So keys of "shop:" begin with "shop:", and those of
// "shop" or "shop:limits:" with "shop%:" or "shop:limits:%:". A prefix may have a
// hash tag, such as "{limits}:", which puts all keys into one Cluster hash slot.
func WithPrefix(prefix string) Option {
	return option(func(s *settings, c *store.Config) {
		if !bracesAreTag(prefix) {
			c.ArgumentError("WithPrefix", prefix, "must have no braces, or a hash tag such as {limits}")
			return
		}
		s.prefix = prefix
	})
}

// WithTimeout sets how long Redis may take to answer a decision: by default 100
// ms. After that, or an eighth later, the policy's OnFailure decides. The timeout
// should be more than two round trips to the server.
//
// The timeout begins when the decision is sent. Until then it may be queued for
// ten times the timeout while Redis answers others, and for the timeout once it
// does not. A process that is late itself waits longer for an answer.
// Opening a connection may take a second, or ten times the timeout if that is
// longer; decisions don't wait for it longer than the timeout. The client's own
// timeouts and the deadline of the request's context hold as well.
func WithTimeout(d time.Duration) Option {
	return option(func(s *settings, c *store.Config) {
		if d <= 0 {
			c.ArgumentError("WithTimeout", d, "must be above 0")
			return
		}
		s.timeout = d
	})
}

// WithBreaker sets after how many failed calls in a row the store stops asking
// Redis, and for how long: by default 5 calls, and 500 ms. In that time the
// policy's OnFailure decides at once. Then one call tries Redis again. If it
// succeeds, Redis gets what callers have returned meanwhile, such as slots, and
// then decides again.
//
// Of calls that were in flight at the same time, one failure counts. A decision
// that was queued for too long, while Redis answered others, is no failure. Each
// server of a Cluster or a Ring has a breaker of its own, and errors about a
// single slot don't count there.
func WithBreaker(failures int, pause time.Duration) Option {
	return option(func(s *settings, c *store.Config) {
		if failures < 1 {
			c.ArgumentError("WithBreaker failures", failures, "must be at least 1")
		}
		if pause <= 0 {
			c.ArgumentError("WithBreaker pause", pause, "must be above 0")
		}
		s.failures, s.pause = failures, pause
	})
}

// WithDenyCache sets for how long the store may repeat a denial without asking
// Redis: by default 1 second, and 0 means never. If Redis has said "retry in
// t", the bucket can't have the tokens before t, unless somebody gives tokens
// back or resets it. So until t, and for the horizon at most, the store denies
// the same key in this process, with the right RetryAfter and without a round
// trip. A refund or reset by this store ends that at once; one by another
// process does not. The cache holds at most 65,536 keys.
func WithDenyCache(horizon time.Duration) Option {
	return option(func(s *settings, c *store.Config) {
		if horizon < 0 {
			c.ArgumentError("WithDenyCache", horizon, "must not be negative")
			return
		}
		s.horizon = horizon
	})
}

// WithLease lets the store lease tokens of busy keys: it takes up to n of them
// ahead, and decides in this process while they last. Use it for a key with
// more requests than one Redis can decide. By default, and with 0, each
// decision asks Redis.
//
// A key with two requests within 50 ms leases tokens with its next decision:
// one at first, then twice as many each time they are used up within 50 ms. A
// lease is at most n tokens, a tenth of the smallest Capacity, and half of what
// the bucket has left. Its tokens are used within 100 ms of sending the call.
// Then the store gives back what is left.
//
// Leased tokens have left the bucket, and it refills behind them: a window of d
// admits at most MaxIn(d + 100 ms). Other processes, Peek and AllowAtMost don't
// see them, and no Debit or Reset ends a lease. Tokens are lost, until they
// refill, if a process ends with a lease and without [Store.Close], or if the
// call that takes or gives back a lease gets no answer.
//
// Only Allow and AllowN use leases, and only of policies whose limits count
// requests and refill, but not by a calendar. The store watches up to 65,536
// keys for being busy.
//
// Decisions on a lease have the Source [core.FromLease], and cost no round trip
// and no allocation. Their Remaining is what the bucket had when the lease was
// taken, less what this process has used since.
func WithLease(n int64) Option {
	return option(func(s *settings, c *store.Config) {
		if n < 0 {
			c.ArgumentError("WithLease", n, "must not be negative")
			return
		}
		s.lease = n
	})
}
