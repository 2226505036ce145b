package migration

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// ErrClosed means that no call may be made, because the rate is 0.
var ErrClosed = errors.New("calls are switched off")

// XTimeAfter limits the calls to each host.
type XTimeAfter struct {
	limiter *core.Limiter // of all hosts: the host is the key
	closed  atomic.Bool   // a rate of 0: no limit has it
	open    atomic.Bool   // an infinite rate: no limit has it
}

// NewXTimeAfter returns an XTimeAfter of perSecond calls a second. 0 allows none; an infinite rate allows all.
func NewXTimeAfter(perSecond float64, burst int64) (*XTimeAfter, error) {
	limiter, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "hosts", Limits: []core.Limit{core.PerSecond(1)},
	})
	if err != nil {
		return nil, err
	}
	l := &XTimeAfter{limiter: limiter}
	return l, l.SetRate(perSecond, burst)
}

// Allow reports whether n calls may go to a host now.
func (l *XTimeAfter) Allow(host string, n int64) bool {
	if l.closed.Load() || l.open.Load() {
		return l.open.Load()
	}
	res, err := l.limiter.AllowN(context.Background(), host, n)
	return err == nil && res.Allowed
}

// Wait blocks until n calls may go to a host.
func (l *XTimeAfter) Wait(ctx context.Context, host string, n int64) error {
	switch {
	case l.open.Load():
		return nil
	case l.closed.Load():
		return ErrClosed
	}
	return l.limiter.WaitN(ctx, host, n)
}

// Plan reserves a call that begins after delay. It reserves none if the delay would be longer than most.
func (l *XTimeAfter) Plan(ctx context.Context, host string, most time.Duration) (delay time.Duration, ok bool, err error) {
	switch {
	case l.open.Load():
		return 0, true, nil
	case l.closed.Load():
		return core.Never, false, nil
	}
	r, err := l.limiter.Reserve(ctx, host, 1)
	if err != nil {
		return 0, false, err
	}
	if !r.OK() || r.Delay() > most {
		return r.Delay(), false, r.Cancel(ctx)
	}
	return r.Delay(), true, nil
}

// SetRate changes the rate and the burst.
func (l *XTimeAfter) SetRate(perSecond float64, burst int64) error {
	closed, open := perSecond == 0, math.IsInf(perSecond, 1)
	if !closed && !open {
		if err := l.limiter.SetPolicy(core.Policy{
			Name: "hosts", Limits: []core.Limit{core.PerSecond(perSecond).WithBurst(burst)},
		}); err != nil {
			return err
		}
	}
	l.closed.Store(closed)
	l.open.Store(open)
	return nil
}
