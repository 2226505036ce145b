// Workers without HTTP: they send mail through one provider, which takes 5
// messages a second from all replicas together. A mail is sent when its tokens
// are there; while Redis is away none is, and none is lost. Replace send, the
// limit and the queue; the rest can stay.
//
//	REDIS_URL=redis://localhost:6379 go run ./examples/jobs   # in two terminals: together 5 a second
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

type mail struct{ number, recipients int64 }

func app(store core.Store, options ...core.LimiterOption) worker {
	return worker{core.Must(core.NewLimiter(store, core.Policy{
		Name:      "mail-provider",
		Limits:    []core.Limit{core.PerSecond(5)},
		OnFailure: core.FailClosed, // mail can wait; if each replica limited alone, the provider would get too much
	}, options...))}
}

type worker struct{ provider *core.Limiter }

// work sends mails until the queue is closed or ctx ends. A mail that it has
// begun is sent.
func (w worker) work(ctx context.Context, queue <-chan mail, send func(mail)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, more := <-queue:
			if !more {
				return nil
			}
			if err := w.wait(ctx, m); err != nil {
				return fmt.Errorf("mail %d is not sent: %w", m.number, err) // put it back into your queue
			}
			send(m)
		}
	}
}

// wait waits until a mail's tokens are there, one for each recipient, also
// through an outage of Redis.
func (w worker) wait(ctx context.Context, m mail) error {
	for {
		err := w.provider.WaitN(ctx, "smtp", m.recipients)
		if !errors.Is(err, core.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// main reads REDIS_URL.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("jobs-example:"))
		if err == nil {
			err = redis.Ping(ctx)
		}
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err) // else each replica would limit alone, and nobody would notice
		}
		defer redis.Close()
		store = redis
	}
	queue := make(chan mail)
	go func() {
		defer close(queue)
		for n := range int64(15) {
			select {
			case queue <- mail{number: n, recipients: 1 + n%2}:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := app(store)
	start := time.Now()
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			err := w.work(ctx, queue, func(m mail) {
				fmt.Printf("%4.1fs  mail %d to %d recipients\n", time.Since(start).Seconds(), m.number, m.recipients)
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	workers.Wait()
}
