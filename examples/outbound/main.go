// A client that stays within the limit of its provider's API. An http.RoundTripper takes a token of
// the host's bucket for each call, and waits if there is none. If the provider answers 429, all calls to
// that host pause. Without -url the client calls a provider in this process, which allows fewer calls than
// it promises. Try:
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
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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

// maxTries bounds how often a call is sent when the provider answers 429.
const maxTries = 5

// transport waits before each call for a token of the host's bucket, and until the host's pause is over.
// Calls get their tokens in the order in which they ask. If the wait or the pause would end after the
// deadline of the request's context, it returns core.ErrDeadline at once. Set a deadline with
// http.NewRequestWithContext, or with the Timeout of the http.Client.
type transport struct {
	base    http.RoundTripper
	limiter *core.Limiter

	mu     sync.Mutex
	paused map[string]time.Time // until when, by host
}

func newTransport(store core.Store, base http.RoundTripper) *transport {
	return &transport{
		base: base,
		limiter: core.Must(core.NewLimiter(store, core.Policy{
			Name:   "outbound",
			Limits: []core.Limit{core.PerSecond(5)}, // what the provider's documentation promises
		})),
		paused: make(map[string]time.Time),
	}
}

// RoundTrip sends the request when it is its turn. After a 429 with Retry-After it waits and sends the
// request again, if the body can be read again. After maxTries it returns the 429.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, host := req.Context(), req.URL.Host
	for try := 1; ; try++ {
		if err := t.turn(ctx, host); err != nil {
			if req.Body != nil {
				req.Body.Close() // a RoundTripper must, on errors too
			}
			return nil, fmt.Errorf("waiting for %s: %w", host, err)
		}
		resp, err := t.base.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			return resp, err
		}
		wait, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now())
		if !ok {
			return resp, nil
		}
		t.pause(host, wait)
		again, ok := rewind(req)
		if !ok || try == maxTries {
			return resp, nil
		}
		io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
		resp.Body.Close()
		req = again
	}
}

// turn takes a token of the host, at a time when the host is not paused.
func (t *transport) turn(ctx context.Context, host string) error {
	key := core.JoinKey("host", host)
	for {
		if err := t.waitForPause(ctx, host); err != nil {
			return err
		}
		if err := t.limiter.Wait(ctx, key); err != nil {
			return err
		}
		if t.pauseLeft(host) == 0 {
			return nil
		}
		// A pause began while this call waited for its token. Give the token back: otherwise all
		// waiting calls would be sent at once when the pause is over.
		if err := t.limiter.Refund(ctx, key, 1); err != nil && !errors.Is(err, core.ErrUnavailable) {
			return err
		}
	}
}

func (t *transport) waitForPause(ctx context.Context, host string) error {
	for {
		left := t.pauseLeft(host)
		if left == 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < left {
			return core.ErrDeadline
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *transport) pauseLeft(host string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, time.Until(t.paused[host]))
}

func (t *transport) pause(host string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := time.Now().Add(d); until.After(t.paused[host]) {
		t.paused[host] = until
	}
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now)), true
	}
	return 0, false
}

// rewind returns the request with its body from the start.
func rewind(req *http.Request) (*http.Request, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, true
	}
	if req.GetBody == nil {
		return nil, false
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, false
	}
	again := req.Clone(req.Context()) // a RoundTripper must not change the caller's request
	again.Body = body
	return again, true
}
