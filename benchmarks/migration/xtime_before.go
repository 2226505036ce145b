package migration

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// XTimeBefore limits the calls to each host.
type XTimeBefore struct {
	mu    sync.Mutex
	limit rate.Limit
	burst int
	hosts map[string]*rate.Limiter // grows with every host
}

// NewXTimeBefore returns an XTimeBefore of perSecond calls a second. 0 allows a burst and no more; rate.Inf allows all.
func NewXTimeBefore(perSecond rate.Limit, burst int) *XTimeBefore {
	return &XTimeBefore{limit: perSecond, burst: burst, hosts: make(map[string]*rate.Limiter)}
}

func (l *XTimeBefore) host(name string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.hosts[name]
	if !ok {
		limiter = rate.NewLimiter(l.limit, l.burst)
		l.hosts[name] = limiter
	}
	return limiter
}

// Allow reports whether n calls may go to a host now.
func (l *XTimeBefore) Allow(host string, n int) bool {
	return l.host(host).AllowN(time.Now(), n)
}

// Wait blocks until n calls may go to a host.
func (l *XTimeBefore) Wait(ctx context.Context, host string, n int) error {
	return l.host(host).WaitN(ctx, n)
}

// Plan reserves a call that begins after delay. It reserves none if the delay would be longer than most.
func (l *XTimeBefore) Plan(host string, most time.Duration) (delay time.Duration, ok bool) {
	r := l.host(host).Reserve()
	if delay = r.Delay(); !r.OK() || delay > most {
		r.Cancel()
		return delay, false
	}
	return delay, true
}

// SetRate changes the rate and the burst.
func (l *XTimeBefore) SetRate(perSecond rate.Limit, burst int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit, l.burst = perSecond, burst
	for _, limiter := range l.hosts {
		limiter.SetLimit(perSecond)
		limiter.SetBurst(burst)
	}
}
