package store

import (
	"log/slog"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/known"
	"github.com/tokenbucket-go/ratelimit/core/internal/logline"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// Configured is a [Store] that has a configuration.
type Configured interface {
	Store

	// Config returns the same Config at each call.
	Config() *Config
}

// Config is the part of a store's configuration that limiters use. Set its fields before you use the store.
type Config struct {
	Mistakes []error          // mistakes in the store's options; NewLimiter reports them
	Clock    func() time.Time // the clock of the store and of its fallback under FailLocal; nil: the default clock
	Logger   *slog.Logger     // nil: slog.Default

	// Recall returns the denial of a request to take n tokens that the store knows to be true still, as it was then, and
	// its age in µs. It returns nil if the store knows none. hash is Request.Hash. A pointer to the request would cost an
	// allocation. Do would return the same denial, but copy it twice: a
	// repeated denial then took 170 ns instead of 130. Only limiters of Owner use Recall, for a store that wraps Owner
	// must see all requests. Nil: the store remembers no denials.
	Recall func(hash uint64, policy, key string, p *bucket.Plan, n int64) (denial *Answer, age int64)
	Owner  Store

	Limiters Limiters // for package core
}

// Limiters is what the limiters of a store share. Its zero value is ready for use.
type Limiters struct {
	Policies   known.Policies
	Unreadable logline.Pace // keys whose state can't be used
}

// Unreadable is how often limiters of the store got a [StateError] from it, for the store's statistics.
func (c *Config) Unreadable() int64 { return c.Limiters.Unreadable.Count() }

// Mistake adds a core.ConfigError to c.Mistakes.
func (c *Config) Mistake(field string, value any, reason string) {
	c.Mistakes = append(c.Mistakes, &mistake.Error{Field: field, Value: value, Reason: reason})
}

// Option is an option of a store.
type Option interface {
	// ConfigureStore applies the option to c.
	ConfigureStore(c *Config)
}

// ClockOption is an option of all stores.
type ClockOption struct{ now func() time.Time }

// WithClock makes a store read the time from now instead of the clock of the system or the Redis server. It is for
// tests. The time must be from 1970 to 2112: at any other, such as the zero [time.Time], decisions are [ErrClock].
func WithClock(now func() time.Time) ClockOption { return ClockOption{now} }

// ConfigureStore sets the clock.
func (o ClockOption) ConfigureStore(c *Config) {
	if o.now == nil {
		c.Mistake("WithClock", nil, "must be a function")
		return
	}
	c.Clock = o.now
}
