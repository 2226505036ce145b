package clientlimit

import "time"

// WithJitter has a test say what is by chance.
func WithJitter(jitter func(most time.Duration) time.Duration) Option {
	return func(c *config) { c.jitter = jitter }
}
