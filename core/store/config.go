package store

import (
	"log/slog"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/logline"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// Configured is a [Store] with options. Limiters, and stores around it, read its Config.
type Configured interface {
	Store

	// Config returns the same Config at each call.
	Config() *Config
}

// Config is the part of a store's configuration that all stores have. Set its fields before you use the store.
type Config struct {
	ArgumentErrors []error          // mistakes in the store's options; core.NewLimiter reports them
	Clock          func() time.Time // an injected clock, also of the fallback under FailLocal; nil: the store's usual clock
	Logger         *slog.Logger     // nil: slog.Default

	Limiters Limiters // for package core
}

// Limiters is what the limiters of a store share. It is for package core. Its zero value is ready for use.
type Limiters struct {
	Policies   policies
	Unreadable logline.Pace // counts and logs keys whose state can't be used
}

// Unreadable returns how often limiters of the store got a [StateError] from it, for the store's statistics.
func (c *Config) Unreadable() int64 { return c.Limiters.Unreadable.Count() }

// Log returns the logger of the store's warnings: Logger, or slog.Default.
func (c *Config) Log() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.Default()
}

// ArgumentError adds a core.ConfigError to c.ArgumentErrors.
func (c *Config) ArgumentError(field string, value any, reason string) {
	c.ArgumentErrors = append(c.ArgumentErrors, &mistake.Error{Field: field, Value: value, Reason: reason})
}

// ClockError returns [ErrClock] if an injected clock is out of range, and otherwise nil.
func (c *Config) ClockError() error {
	if c.Clock == nil {
		return nil
	}
	_, err := Instant(c.Clock())
	return err
}

// start and startNanos are what Now and Nanos count from.
var (
	start      = time.Now()
	startNanos = start.UnixNano()
)

// Now returns the time of the injected clock. Without one it returns this process's time, for measuring intervals: it never steps, not
// even if the wall clock is set, and it costs less than time.Now.
func (c *Config) Now() time.Time {
	if c.Clock == nil {
		return start.Add(time.Since(start)) // reads only the monotonic clock
	}
	return c.Clock()
}

// Nanos returns Now in ns since 1970, or [ErrClock] if the injected clock is out of range.
func (c *Config) Nanos() (int64, error) {
	if c.Clock == nil {
		return startNanos + int64(time.Since(start)), nil
	}
	now := c.Clock()
	_, err := Instant(now)
	return now.UnixNano(), err
}

// Option is an option of any store.
type Option interface {
	// ConfigureStore applies the option to c.
	ConfigureStore(c *Config)
}

// ClockOption is an option of all stores.
type ClockOption struct{ now func() time.Time }

// WithClock makes a store read the time from now instead of the clock of the system or the Redis server. It is for
// tests. The time must be from 1970 to 17 September 2112: at any other, such as the zero [time.Time], decisions fail with
// [ErrClock].
func WithClock(now func() time.Time) ClockOption { return ClockOption{now} }

// ConfigureStore sets the clock.
func (o ClockOption) ConfigureStore(c *Config) {
	if o.now == nil {
		c.ArgumentError("WithClock", nil, "must be a function")
		return
	}
	c.Clock = o.now
}
