// Background jobs that share one limit: all replicas together write at most 100 rows a second to a
// database. A job costs a token for each row. It reserves its tokens, waits for its turn, and gives
// tokens back if it is cancelled or writes fewer rows. Try:
//
//	go run ./examples/batch                        # bucket in this process
//	go run ./examples/batch -redis localhost:6379  # in two terminals: together 100 rows a second
//
// Press Ctrl-C while it runs: the jobs that wait are cancelled. The tokens of a cancelled job come back,
// except those that a later job already counts on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

func main() {
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the bucket in this process")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("batch-example:"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	jobs := []job{{"orders", 60}, {"prices", 80}, {"customers", 250}, {"stock", 40}, {"reviews", 120}, {"images", 90}}
	b := newBatch(store, func(_ context.Context, j job) (int64, error) {
		return j.rows * 9 / 10, nil // a tenth of the rows had not changed
	})
	if err := b.run(ctx, 3, jobs); err != nil {
		log.Fatal(err)
	}
}

type job struct {
	name string
	rows int64
}

// capacity is the most rows that may be written at once; the batch splits larger jobs into parts.
const capacity = 100

// batch does jobs at the pace of a limiter.
type batch struct {
	limiter *core.Limiter
	write   func(context.Context, job) (written int64, err error)
	logf    func(format string, args ...any)
	done    atomic.Int64 // rows
}

func newBatch(store core.Store, write func(context.Context, job) (int64, error)) *batch {
	return &batch{
		limiter: core.Must(core.NewLimiter(store, core.Policy{
			Name: "batch", Limits: []core.Limit{core.PerSecond(100).WithBurst(capacity)},
			OnFailure: core.FailClosed, // jobs can wait; if each replica limited alone, they would write too much together
		})),
		write: write,
		logf:  log.Printf,
	}
}

// run does the jobs with so many workers, until all are done or ctx ends. It returns the errors of
// the jobs that were not done.
func (b *batch) run(ctx context.Context, workers int, jobs []job) error {
	var total int64
	queue := make(chan job, len(jobs))
	for _, j := range jobs {
		total += j.rows
		queue <- j
	}
	close(queue)
	errs := make(chan error, len(jobs))
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for j := range queue {
				if err := b.do(ctx, j); err != nil {
					errs <- fmt.Errorf("%s: %w", j.name, err)
					continue
				}
				b.logf("%s done; %d of %d rows", j.name, b.done.Load(), total)
			}
		})
	}
	running.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// do writes a job in parts that fit into the bucket: a reservation is at most the capacity.
func (b *batch) do(ctx context.Context, j job) error {
	for left := j.rows; left > 0; {
		part := job{j.name, min(left, capacity)}
		if err := b.await(ctx, part); err != nil {
			return err
		}
		written, err := b.write(ctx, part)
		if unused := part.rows - written; unused > 0 { // after an error too: give back the tokens of rows that were not written
			if err := b.limiter.Refund(context.WithoutCancel(ctx), "rows", unused); err != nil {
				b.logf("%s: %d tokens are lost: %v", j.name, unused, err)
			}
		}
		if err != nil {
			return err
		}
		left -= part.rows
		b.done.Add(part.rows)
	}
	return nil
}

// await returns when it is the part's turn. It does what limiter.WaitN(ctx, "rows", rows) does, and also
// logs how long the wait will be.
func (b *batch) await(ctx context.Context, part job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	res, err := b.limiter.Reserve(ctx, "rows", part.rows)
	if err != nil {
		return err
	}
	if !res.Allowed {
		return core.ErrCapacity
	}
	if res.Delay() > 0 {
		b.logf("%s: %d rows in %v", part.name, part.rows, res.Delay().Round(time.Millisecond))
	}
	select {
	case <-time.After(res.Delay()):
		return nil
	case <-ctx.Done():
		if err := res.Undo(context.WithoutCancel(ctx)); err != nil { // although ctx has ended
			b.logf("%s: %d tokens are lost: %v", part.name, part.rows, err)
		}
		return ctx.Err()
	}
}
