package core

import (
	"context"
	"time"
)

// Layer is the part of a store around another one that passes everything on. Such a store embeds it, and has methods of its
// own for what it changes.
type Layer struct {
	Next Store

	joint  JointStore // Next; nil if it can't decide requests together
	config *StoreConfig
}

// LayerOn returns the Layer of a store around next.
func LayerOn(next Store) Layer {
	l := Layer{Next: next, config: &StoreConfig{}}
	l.joint, _ = next.(JointStore)
	if c, ok := next.(ConfiguredStore); ok {
		l.config = c.Config()
	}
	return l
}

// Config returns the configuration of the store around which the layers are.
func (l *Layer) Config() *StoreConfig { return l.config }

// Do has the next store decide r.
func (l *Layer) Do(ctx context.Context, r Request) (Answer, error) { return l.Next.Do(ctx, r) }

// DoTogether has the next store decide requests in one step. It returns [ErrApart] if that can't.
func (l *Layer) DoTogether(ctx context.Context, requests []Request) ([]JointAnswer, error) {
	if l.joint == nil {
		return nil, ErrApart
	}
	return l.joint.DoTogether(ctx, requests)
}

// Reset has the next store forget a bucket.
func (l *Layer) Reset(ctx context.Context, policy, key string) error {
	return l.Next.Reset(ctx, policy, key)
}

// ClockError is [ErrClock] if the injected clock is out of range.
func (c *StoreConfig) ClockError() error {
	if c.Clock == nil {
		return nil
	}
	_, err := instantOf(c.Clock())
	return err
}

// start is where Now counts from.
var start = time.Now()

// Now is the time in this process, or that of the injected clock. It returns [ErrClock] if that is out of range.
func (c *StoreConfig) Now() (time.Time, error) {
	if c.Clock == nil {
		return start.Add(time.Since(start)), nil // time.Now, without a look at the wall's clock
	}
	now := c.Clock()
	_, err := instantOf(now)
	return now, err
}
