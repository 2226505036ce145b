package clientlimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// full is a service whose limit is used up for an hour.
func full() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
}

func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer server.Close()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "provider", Limits: []core.Limit{core.PerSecond(50)}}))
	client := &http.Client{Transport: clientlimit.New(http.DefaultTransport, clientlimit.WithLimiter(limiter, clientlimit.ByHost()))}
	res, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer res.Body.Close()
	fmt.Println(res.StatusCode)
	// Output: 200
}

// The first caller gets the refusal, because no wait of an hour is wanted. The
// next request is not sent at all.
func ExampleError() {
	server := full()
	defer server.Close()
	client := &http.Client{Transport: clientlimit.New(nil, clientlimit.WithMaxWait(time.Minute))}
	res, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	fmt.Println(res.StatusCode)

	_, err = client.Get(server.URL)
	var wait *clientlimit.Error
	fmt.Println(errors.As(err, &wait), errors.Is(err, core.ErrDeadline), time.Until(wait.Until) > 59*time.Minute)
	// Output:
	// 429
	// true true true
}

func ExampleTransport() {
	transport := clientlimit.New(http.DefaultTransport, clientlimit.WithAttempts(3), clientlimit.WithMaxWait(10*time.Second))
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	fmt.Println(transport.State("host:api.example.com").Waiting)
	// Output: 0
}

func ExampleState() {
	server := full()
	defer server.Close()
	transport := clientlimit.New(nil, clientlimit.WithKey(func(*http.Request) (string, error) { return "provider", nil }))
	res, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	s := transport.State("provider")
	fmt.Println(s.Waiting, s.UnderWay, s.PausedUntil.IsZero())
	// Output: 0 0 false
}

func ExampleKeyFunc() {
	var byAccount clientlimit.KeyFunc = func(r *http.Request) (string, error) {
		return core.JoinKey("account", r.URL.Query().Get("account")), nil
	}
	key, _ := byAccount(httptest.NewRequest("GET", "/?account=7", nil))
	fmt.Println(key)
	// Output: account:7
}

func ExampleOption() {
	options := []clientlimit.Option{clientlimit.WithQueue(100), clientlimit.WithName("github")}
	clientlimit.New(nil, options...)
	// Output:
}

func ExampleEvent() {
	server := full()
	defer server.Close()
	client := &http.Client{Transport: clientlimit.New(nil, clientlimit.WithName("github"),
		clientlimit.WithObserver(func(_ context.Context, e clientlimit.Event) { fmt.Println(e.Client, e.Kind) }))}
	res, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	// Output:
	// github sent
	// github refused
	// github paused
}

func ExampleKind() {
	counts := map[clientlimit.Kind]int{}
	observe := func(_ context.Context, e clientlimit.Event) { counts[e.Kind]++ }
	observe(context.Background(), clientlimit.Event{Kind: clientlimit.Sent})
	fmt.Println(counts)
	// Output: map[sent:1]
}

// A request takes 1,000 tokens at first, and in the end what the model says
// that it used.
func ExampleAnswer() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"text": "hello", "usage": {"total_tokens": 840}}`)
	}))
	defer model.Close()
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "model", Limits: []core.Limit{core.PerDay(100_000).WithUnit("tokens")},
	}))
	client := &http.Client{Transport: clientlimit.New(nil,
		clientlimit.WithLimiter(limiter, func(*http.Request) (string, error) { return "model", nil }),
		clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 1000}, nil }),
		clientlimit.WithSettle(func(a *clientlimit.Answer) core.Units {
			var answer struct {
				Usage struct {
					Tokens int64 `json:"total_tokens"`
				}
			}
			if json.Unmarshal(a.Read, &answer) != nil {
				return nil // the estimate stays
			}
			return core.Units{"tokens": answer.Usage.Tokens}
		}),
	)}
	res, err := client.Get(model.URL)
	if err != nil {
		panic(err)
	}
	var text struct{ Text string }
	err = json.NewDecoder(res.Body).Decode(&text)
	res.Body.Close()
	left, _ := limiter.Peek(context.Background(), "model")
	fmt.Println(text.Text, err, left.Limits()[0].Remaining)
	// Output: hello <nil> 99160
}
