package pictures

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/lease"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// shared is a store that takes leases. It notes when it is called, and how many
// tokens it lends.
type shared struct {
	*core.MemoryStore

	mu   sync.Mutex
	lent []int64 // by each call
}

func (s *shared) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	a, err := s.MemoryStore.Do(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lent = append(s.lent, a.Lent)
	return a, err
}

// count returns how many calls there were, and how many tokens the last one
// lent.
func (s *shared) count() (calls int, lent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.lent); n > 0 {
		return n, s.lent[n-1]
	}
	return 0, 0
}

// drawLeases shows a process that takes tokens of a busy key ahead, and gives
// back what it does not use.
func drawLeases() *canvas {
	const (
		requests, every = 60, 7 * time.Millisecond // no multiple of which is when an idle lease goes back
		end             = 630 * time.Millisecond
		process, bucket = 352.0, 508.0 // the floors of two rows
		high            = 80.0
	)
	memory := core.NewMemoryStore()
	below := &shared{MemoryStore: memory}
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(100).WithMode(core.Aligned)}}
	limiter := core.Must(core.NewLimiter(lease.New(below, 100, 100*time.Millisecond), policy))
	ann := &client{limiter: core.Must(core.NewLimiter(memory, policy)), began: time.Now()} // sees the shared bucket
	x := func(at time.Duration) float64 { return scale(float64(at), float64(end), margin+56, width-margin) }

	var sent, called []float64
	held := []level{{0, 0}}
	calls, onLease, unused := 0, int64(0), int64(0)
	for ann.note(); ann.now() < end; ann.note() {
		now := ann.now()
		if len(sent) < requests {
			sent = append(sent, x(now))
			if core.Must(limiter.Allow(context.Background(), key)).Source == core.FromLease {
				onLease--
			}
		}
		if n, brought := below.count(); n > calls {
			calls, onLease, unused = n, brought, onLease
			called = append(called, x(now))
		}
		held = append(held, level{now, held[len(held)-1].tokens}, level{now, float64(onLease)})
		ann.note()
		time.Sleep(every)
	}
	held = append(held, level{end, float64(onLease)})
	most := slices.Max(below.lent)

	c := newCanvas(584, fmt.Sprintf("Leases: %d requests for one key, %d calls to Redis", len(sent), calls))
	c.text(margin, 96, "text bold", "requests")
	c.ticks(sent, 110)
	c.text(margin, 168, "text bold", "calls to Redis")
	c.text(width-margin, 168, "soft end", "unused tokens go back")
	c.ticks(called, 182)
	c.text(margin, process-high-26, "text bold", "tokens on lease in the process")
	y := func(tokens float64) float64 { return scale(tokens, float64(most), process, process-high) }
	c.scaleY(x(0), width-margin, y, 0, float64(most))
	c.curve(points(held, x, y), process)
	c.text((sent[len(sent)-1]+called[len(called)-1])/2, y(float64(unused))-12, "text middle", fmt.Sprintf("%d unused", unused))
	c.text(margin, bucket-high-26, "text bold", "tokens in the bucket in Redis")
	y = func(tokens float64) float64 { return scale(tokens, 100, bucket, bucket-high) }
	c.scaleY(x(0), width-margin, y, 0, 100)
	c.curve(points(ann.levels, x, y), bucket)
	for ms := time.Duration(0); ms <= 600; ms += 200 {
		c.text(x(ms*time.Millisecond), bucket+36, "soft middle", fmt.Sprintf("%d ms", ms))
	}
	c.describe("A process sends %d requests for one key, one every %d milliseconds. Only some of them make a call to Redis: there are %d calls. A call takes "+
		"tokens ahead: first one, and then more, up to %d. The requests that follow use these tokens in the process. After the requests "+
		"stop, %d unused tokens go back.", len(sent), every.Milliseconds(), calls, most, unused)
	return c
}
