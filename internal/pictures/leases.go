package pictures

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/lease"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// shared is a store that takes leases. It notes when it is called, and how many tokens it lends.
type shared struct {
	core.Store

	mu    sync.Mutex
	calls []loan
}

// loan is a call to the shared store: how many tokens the process has on lease afterwards.
type loan struct {
	at     time.Time
	tokens int64
}

func (s *shared) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.Store.Do(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, loan{time.Now(), a.Lent})
	return a, err
}

// count returns how many calls there were, and how many tokens the last one left on lease.
func (s *shared) count() (calls int, onLease int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.calls); n > 0 {
		return n, s.calls[n-1].tokens
	}
	return 0, 0
}

// drawLeases shows a process that takes tokens of a busy key ahead, and gives back what it does not use.
func drawLeases() *canvas {
	const (
		requests, every = 60, 7 * time.Millisecond // no multiple of which is when an idle lease goes back
		end             = 630 * time.Millisecond
		process, bucket = 352.0, 508.0 // the floors of two rows
		high            = 80.0
	)
	memory := core.NewMemoryStore()
	below := &shared{Store: memory}
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100).WithMode(core.Aligned)}}
	limiter := core.Must(core.NewLimiter(lease.New(below, 100, 100*time.Millisecond), policy))
	ann := &client{limiter: core.Must(core.NewLimiter(memory, policy)), began: time.Now()} // sees the shared bucket
	x := func(at time.Duration) float64 { return scale(float64(at), 0, float64(end), margin+56, width-margin) }

	var sent, called []float64
	held := []level{{0, 0}}
	calls, onLease := 0, int64(0)
	for ann.note(); ann.now() < end; ann.note() {
		now := ann.now()
		if len(sent) < requests {
			sent = append(sent, x(now))
			if core.Must(limiter.Allow(context.Background(), key)).Source == core.FromLease {
				onLease--
			}
		}
		if n, brought := below.count(); n > calls {
			calls, onLease = n, brought
			called = append(called, x(now))
		}
		held = append(held, level{now, held[len(held)-1].tokens}, level{now, float64(onLease)})
		ann.note()
		time.Sleep(every)
	}

	c := newCanvas(560, fmt.Sprintf("Leases: %d requests for one key, %d calls to Redis", len(sent), calls),
		"A process sends 60 requests for one key, one every 7 milliseconds. Only some of them make a call to Redis. A call takes tokens ahead: first one, "+
			"then twice as many each time. The requests that follow use these tokens in the process. After the requests stop, unused tokens go back.")
	c.heading(96, "requests", "", 0)
	c.ticks(sent, 110)
	c.heading(168, "calls to Redis", "", 0)
	c.ticks(called, 182)
	c.heading(process-high-26, "tokens on lease in the process", "", 0)
	y := func(tokens float64) float64 { return scale(tokens, 0, 8, process, process-high) }
	c.scaleY(x(0), width-margin, y, 0, 8)
	c.curve(points(held, x, y), process)
	c.heading(bucket-high-26, "tokens in the bucket in Redis", "", 0)
	y = func(tokens float64) float64 { return scale(tokens, 0, 100, bucket, bucket-high) }
	c.scaleY(x(0), width-margin, y, 0, 100)
	c.curve(points(ann.levels, x, y), bucket)
	return c
}
