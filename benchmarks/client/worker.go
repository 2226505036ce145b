package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// workerCase is what one process does.
type workerCase struct {
	Method, URL, Redis, Key string
	Clients                 int
	Begin                   time.Time
	For                     time.Duration
}

// method is a kind of client. All clients of a process share what it returns.
type method struct {
	name string
	make func(c workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error)
}

var methods = []method{
	{"plain http.Client", func(_ workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		return (&http.Client{Transport: base}).Do
	}},
	{"exponential backoff with jitter (go-retryablehttp)", func(_ workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		c := retryablehttp.NewClient()
		c.HTTPClient, c.Logger, c.RetryMax = &http.Client{Transport: base}, nil, 20
		c.Backoff = func(least, most time.Duration, attempt int, res *http.Response) time.Duration { // Retry-After counts
			d := retryablehttp.DefaultBackoff(least, most, attempt, res)
			return d + rand.N(d/2)
		}
		return c.StandardClient().Do
	}},
	{"x/time Wait before each request", func(_ workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		limiter, client := rate.NewLimiter(perSecond, perSecond), &http.Client{Transport: base}
		return func(r *http.Request) (*http.Response, error) {
			if err := limiter.Wait(r.Context()); err != nil {
				return nil, err
			}
			return client.Do(r)
		}
	}},
	{"clientlimit", func(_ workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		return (&http.Client{Transport: clientlimit.New(base)}).Do
	}},
	{"clientlimit, pauses shared", func(c workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		return (&http.Client{Transport: clientlimit.New(base, clientlimit.WithKey(c.key), clientlimit.WithSharedPauses(c.store()))}).Do
	}},
	{"clientlimit, limiter on Redis", func(c workerCase, base http.RoundTripper) func(*http.Request) (*http.Response, error) {
		limiter := core.Must(core.NewLimiter(c.store(), core.Policy{Name: "service", Limits: []core.Limit{core.PerSecond(perSecond)}}))
		return (&http.Client{Transport: clientlimit.New(base, clientlimit.WithLimiter(limiter, c.key))}).Do
	}},
}

func (c workerCase) store() core.Store {
	return redisstore.New(redis.NewClient(&redis.Options{Addr: c.Redis, ContextTimeoutEnabled: true}))
}

func (c workerCase) key(*http.Request) (string, error) { return c.Key, nil }

// runWorker runs clients, each of which sends requests one after the other, and
// prints what they got.
func runWorker(text string) {
	var c workerCase
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		log.Fatal(err)
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = c.Clients
	var send func(*http.Request) (*http.Response, error)
	for _, m := range methods {
		if m.name == c.Method {
			send = m.make(c, base)
		}
	}
	time.Sleep(time.Until(c.Begin))
	ctx, cancel := context.WithTimeout(context.Background(), c.For)
	defer cancel()
	o := outcome{Served: make([]int, c.Clients)}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range c.Clients {
		all.Go(func() {
			for ctx.Err() == nil {
				wait, served := one(ctx, send, c.URL)
				if served {
					mu.Lock()
					o.Served[i]++
					o.Waits = append(o.Waits, wait)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		log.Fatal(err)
	}
}

// one has a request served, and returns how long that took. A client that is
// refused comes again after 100 ms.
func one(ctx context.Context, send func(*http.Request) (*http.Response, error), url string) (wait time.Duration, served bool) {
	began := time.Now()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			log.Fatal(err)
		}
		res, err := send(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return time.Since(began), true
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return 0, false
}
