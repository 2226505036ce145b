// Workers without HTTP: several goroutines send mail through one provider, which takes 5 messages a
// second. With a Redis, programs in several terminals share the 5. Try:
//
//	go run ./examples/jobs                        # bucket in this process
//	go run ./examples/jobs -redis localhost:6379  # bucket shared through Redis
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

func main() {
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the bucket in this process")
	mails := flag.Int("mails", 15, "how many mails to send")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("jobs-example:"))
	}
	provider := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "mail-provider",
		Limits: []core.Limit{core.PerSecond(5)},
	}))

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	jobs := make(chan int)
	var workers sync.WaitGroup
	start := time.Now()
	for worker := range 3 {
		workers.Go(func() {
			for mail := range jobs {
				if err := provider.Wait(ctx, "smtp"); err != nil {
					log.Printf("worker %d: mail %d not sent: %v", worker, mail, err)
					return
				}
				fmt.Printf("%4.1fs  worker %d sends mail %d\n", time.Since(start).Seconds(), worker, mail)
			}
		})
	}
send:
	for mail := range *mails {
		select {
		case jobs <- mail:
		case <-ctx.Done():
			break send
		}
	}
	close(jobs)
	workers.Wait()
}
