package migration

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/core"
)

// XTimeBefore limits the calls to each host to perSecond, with bursts of burst.
type XTimeBefore struct {
	mu        sync.Mutex
	perSecond rate.Limit
	burst     int
	hosts     map[string]*rate.Limiter // grows with every host
}

// NewXTimeBefore returns an XTimeBefore.
func NewXTimeBefore(perSecond rate.Limit, burst int) *XTimeBefore {
	return &XTimeBefore{perSecond: perSecond, burst: burst, hosts: make(map[string]*rate.Limiter)}
}

// Wait blocks until n calls may go to a host.
func (l *XTimeBefore) Wait(ctx context.Context, host string, n int) error {
	l.mu.Lock()
	limiter, ok := l.hosts[host]
	if !ok {
		limiter = rate.NewLimiter(l.perSecond, l.burst)
		l.hosts[host] = limiter
	}
	l.mu.Unlock()
	return limiter.WaitN(ctx, n)
}

// NewXTimeAfter returns a limiter of the calls to each host. To wait until n
// calls may go to one, call WaitN(ctx, host, n).
func NewXTimeAfter(perSecond float64, burst int64) (*core.Limiter, error) {
	return core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "hosts", Limits: []core.Limit{core.PerSecond(perSecond).WithBurst(burst)},
	})
}
