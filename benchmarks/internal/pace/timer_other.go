//go:build !linux

// Package pace waits for short times. Outside Linux time.Sleep does so well enough.
package pace

import "time"

// Timer is time.Sleep.
type Timer struct{}

// NewTimer returns a timer that Close must be called on.
func NewTimer() (*Timer, error) { return &Timer{}, nil }

// Sleep returns after d, or at once if d is not above 0.
func (*Timer) Sleep(d time.Duration) error {
	time.Sleep(d)
	return nil
}

// Close frees the timer.
func (*Timer) Close() {}
