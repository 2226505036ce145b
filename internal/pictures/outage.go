package pictures

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/breaker"
	"github.com/tokenbucket-go/ratelimit/core/denycache"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// silent is a store that does not answer from one instant to another. It notes
// when it is called.
type silent struct {
	*core.MemoryStore

	from, to time.Time

	mu    sync.Mutex
	calls []time.Time
}

func (s *silent) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.mu.Lock()
	now := time.Now()
	s.calls = append(s.calls, now)
	s.mu.Unlock()
	if !now.Before(s.from) && now.Before(s.to) {
		<-ctx.Done()
		return store.Answer{}, ctx.Err()
	}
	return s.MemoryStore.Do(ctx, r)
}

const (
	away, back, end, every = 4, 9, 13, 125 * time.Millisecond // seconds, and the time between two requests

	timeout, failures, pause = 100 * time.Millisecond, 5, 500 * time.Millisecond // the defaults of redisstore
)

// sendThroughOutage sends requests while the store is away from a second to
// another. It returns when the store was called, and how many requests were
// admitted in each second.
func sendThroughOutage(mode core.FailureMode) (calls []time.Duration, admitted [end]int) {
	began := time.Now()
	below := &silent{MemoryStore: core.NewMemoryStore(), from: began.Add(away * time.Second), to: began.Add(back * time.Second)}
	below.Config().Logger = slog.New(slog.DiscardHandler)
	limiter := core.Must(core.NewLimiter(denycache.New(breaker.New(below, timeout, failures, pause), time.Second), core.Policy{
		Name: "api", Limits: []core.Limit{core.PerSecond(4)}, OnFailure: mode,
	}))
	var sending sync.WaitGroup
	var mu sync.Mutex
	for time.Sleep(every / 4); time.Since(began) < end*time.Second; time.Sleep(every) {
		second := int(time.Since(began) / time.Second)
		sending.Go(func() {
			res, err := limiter.Allow(context.Background(), key)
			if errors.Is(err, core.ErrUnavailable) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if core.Must(res, err).Allowed {
				admitted[second]++
			}
		})
	}
	sending.Wait()
	for _, call := range below.calls {
		calls = append(calls, call.Sub(began))
	}
	return calls, admitted
}

// drawOutage shows what each failure mode admits while the store does not
// answer, and which calls reach it.
func drawOutage() *canvas {
	const top, row, high = 300.0, 112.0, 52.0
	c := newCanvas(632, "Redis does not answer for 5 seconds")
	x := func(seconds float64) float64 { return scale(seconds, end, margin, width-margin) }
	c.rect(x(away), 66, x(back)-x(away), top+2*row+18-66, 6, "alarm")
	c.text(x(away)+14, 92, "denied bold", "away")

	var allowed []any
	for i, mode := range []core.FailureMode{core.FailLocal, core.FailOpen, core.FailClosed} {
		calls, admitted := sendThroughOutage(mode)
		if i == 0 {
			var at []float64
			for _, call := range calls {
				at = append(at, x(call.Seconds()))
			}
			c.heading(132, "calls to Redis", fmt.Sprintf("%d fail, then one tries every %d ms", failures, pause.Milliseconds()), 170)
			c.ticks(at, 150)
		}
		floor := top + row*float64(i)
		sum, of := 0, (back-away)*int(time.Second/every)
		for _, n := range admitted[away:back] {
			sum += n
		}
		allowed = append(allowed, sum, of)
		about := [...]string{"a bucket in this process: %d of %d allowed", "%d of %d allowed", "%d of %d allowed, the others get 503"}[i]
		c.heading(floor-high-14, mode.String(), fmt.Sprintf(about, sum, of), 170)
		for second, n := range admitted {
			left, right := x(float64(second))+3, x(float64(second)+1)-3
			c.rect(left, floor-high, right-left, high, 3, "soft-line")
			tall := high * float64(n) / 8
			c.rect(left, floor-tall, right-left, tall, 3, "allowed")
		}
	}
	for i, s := range []float64{0, away, back, end} {
		anchor := [...]string{"", " middle", " middle", " end"}[i]
		c.text(x(s), top+2*row+44, "soft"+anchor, number(s)+" s")
	}
	c.rect(margin, 592, 16, 16, 3, "allowed")
	c.text(margin+26, 606, "soft", "allowed")
	c.rect(margin+150, 592, 16, 16, 3, "soft-line")
	c.text(margin+176, 606, "soft", "denied, of 8 requests a second")
	c.describe("A client sends 8 requests a second under a limit of 4 a second with a burst of 4. While Redis is away, FailLocal allows what the limit "+
		"says, from a bucket in this process: %d of %d. FailOpen allows %d of %d, and FailClosed %d of %d. The first calls wait for the timeout; then "+
		"one call every half second tries Redis.", allowed...)
	return c
}
