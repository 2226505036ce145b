// A client that stays within the limit of its provider's API. The
// http.RoundTripper of clientlimit takes a token of the host's bucket for each
// call, and waits if there is none. If the provider answers 429, all calls to
// that host pause. Without -url the client calls a provider in this process,
// which allows fewer calls than it promises. Try:
//
//	go run ./examples/outbound                        # bucket in this process
//	go run ./examples/outbound -redis localhost:6379  # in two terminals: they share 5 calls a second
//	go run ./examples/outbound -timeout 500ms         # calls that would wait longer fail at once
//	go run ./examples/outbound -url https://example.com/ -calls 3
//
// While it runs, call the provider yourself:
//
//	curl -i localhost:8080/
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address of the provider that is started here")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the bucket in this process")
	url := flag.String("url", "", "what to call; empty starts a provider here")
	calls := flag.Int("calls", 30, "how many calls to make")
	workers := flag.Int("workers", 4, "how many to make at once")
	timeout := flag.Duration("timeout", 30*time.Second, "of each call, its waits included")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}
	if *workers < 1 {
		log.Fatalf("-workers %d: must be at least 1", *workers)
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("outbound-example:"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *url == "" {
		if l, err := net.Listen("tcp", *addr); err == nil {
			go func() { log.Fatal(http.Serve(l, provider())) }()
		} else {
			log.Printf("using the provider that listens there already: %v", err)
		}
		*url = "http://" + *addr + "/"
	}

	client := &http.Client{Transport: newTransport(store, http.DefaultTransport)}
	jobs := make(chan int)
	var running sync.WaitGroup
	start := time.Now()
	for worker := range *workers {
		running.Go(func() {
			for call := range jobs {
				status, err := get(ctx, client, *url, *timeout)
				if err != nil {
					status = err.Error()
				}
				fmt.Printf("%4.1fs  worker %d, call %d: %s\n", time.Since(start).Seconds(), worker, call, status)
			}
		})
	}
	for call := range *calls {
		select {
		case jobs <- call:
		case <-ctx.Done():
		}
	}
	close(jobs)
	running.Wait()
}

func get(ctx context.Context, client *http.Client, url string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Status, err
}

// provider allows 4 calls a second. The transport makes 5.
func provider() http.Handler {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "provider", Limits: []core.Limit{core.PerSecond(4).WithBurst(8)},
	}))
	return httplimit.New(limiter, httplimit.ByIP())(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "here you are") }))
}

// newTransport returns a transport that waits before each call for a token of
// the host's bucket. Calls get their tokens in the order in which they ask. If
// the provider answers 429, all calls of this process to that host pause. A call
// that would wait beyond the deadline of its context fails at once. Set a
// deadline with http.NewRequestWithContext, or with the Timeout of the
// http.Client.
func newTransport(store core.Store, base http.RoundTripper) http.RoundTripper {
	limiter := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "outbound",
		Limits: []core.Limit{core.PerSecond(5)}, // what the provider's documentation promises
	}))
	return clientlimit.New(base, clientlimit.WithLimiter(limiter, clientlimit.ByHost()))
}
