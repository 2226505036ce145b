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
	fmt.Println(client.Timeout) // none: WithMaxWait bounds waits
	// Output: 0s
}

func ExampleKeyFunc() {
	var byAccount clientlimit.KeyFunc = func(r *http.Request) (string, error) {
		return core.JoinKey("account", r.URL.Query().Get("account")), nil
	}
	key, _ := byAccount(httptest.NewRequest(http.MethodGet, "/?account=7", nil))
	fmt.Println(key)
	// Output: account:7
}

func ExampleOption() {
	options := []clientlimit.Option{clientlimit.WithQueue(100), clientlimit.WithAttempts(3)}
	clientlimit.New(nil, options...)
	// Output:
}

// A request takes 1,000 tokens at first, and in the end what the model says
// that it used.
func ExampleWithSettle() {
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
		clientlimit.WithSettle(func(_ *http.Response, end []byte) core.Units {
			var answer struct {
				Usage struct {
					Tokens int64 `json:"total_tokens"`
				}
			}
			if json.Unmarshal(end, &answer) != nil {
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

// A service says in the body of 429 when to come back, in a form of its own.
func ExampleRefusal() {
	busy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if busy {
			busy = false
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"retryDelay": "0.05s"}`)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: clientlimit.New(nil, clientlimit.WithRefusal(
		func(res *http.Response, start []byte) clientlimit.Refusal {
			r := clientlimit.ReadRefusal(res, start)
			var body struct{ RetryDelay string }
			if r.Kind == clientlimit.Refused && json.Unmarshal(start, &body) == nil {
				r.After, _ = time.ParseDuration(body.RetryDelay)
			}
			return r
		}))}
	began := time.Now()
	res, err := client.Get(server.URL)
	if err != nil {
		panic(err)
	}
	res.Body.Close()
	fmt.Println(res.StatusCode, time.Since(began) >= 50*time.Millisecond)
	// Output: 200 true
}

func ExampleRefusalKind() {
	spent := &http.Response{StatusCode: http.StatusTooManyRequests}
	r := clientlimit.ReadRefusal(spent, []byte(`{"error": {"code": "insufficient_quota"}}`))
	fmt.Println(r.Kind == clientlimit.RefusedForGood)
	// Output: true
}
