package clientlimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// trackedBody is the body of a request that knows how often it was closed.
type trackedBody struct {
	io.Reader
	closed int
}

func (b *trackedBody) Close() error { b.closed++; return nil }

func TestARefusalHoldsBackAllRequestsOfItsKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newProvider(refusing(3*time.Second, "3"))
		client := &http.Client{Transport: clientlimit.New(p)}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if status, err := get(t.Context(), t, client, "a"); err != nil || status != 200 {
					t.Error(status, err)
				}
			})
		}
		all.Wait()
		at := p.at()
		if len(at) != 21 || at[0] != 0 || at[1] < 3*time.Second {
			t.Errorf("calls at %v: want one refused, and then 20 when the pause is over", at)
		}
	})
}

// After a pause one request asks whether it is really over.
func TestAfterAPauseOneRequestGoesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		until := time.Now().Add(10 * time.Second)
		p := newProvider(func(int, *http.Request) *http.Response {
			time.Sleep(50 * time.Millisecond)
			if time.Now().Before(until) {
				return respond(429, "Retry-After", "1") // too early
			}
			return respond(200)
		})
		client := &http.Client{Transport: clientlimit.New(p, clientlimit.WithAttempts(20))}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _, _ = get(t.Context(), t, client, "a") })
		}
		all.Wait()
		for i, at := range p.at() {
			if i > 0 && at < 9*time.Second && at-p.at()[i-1] < time.Second {
				t.Errorf("calls at %v: want one a second while each is refused", p.at()[:i+1])
			}
		}
	})
}

func TestAWaitBeyondThePatienceFailsAtOnce(t *testing.T) {
	for rule, c := range map[string]struct {
		timeout time.Duration
		options []clientlimit.Option
	}{
		"beyond the deadline":     {10 * time.Second, nil},
		"beyond the longest wait": {time.Hour, []clientlimit.Option{clientlimit.WithMaxWait(10 * time.Second)}},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := newProvider(refusing(time.Hour, "60"))
				client := &http.Client{Transport: clientlimit.New(p, c.options...)}
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				res, err := client.Do(must(http.NewRequestWithContext(ctx, "GET", "http://a/", nil)))
				if err != nil || res.StatusCode != 429 || p.bodies[0].read || p.bodies[0].closed {
					t.Fatalf("%v, %v: want the refusal itself, with its body unread", res, err)
				}
				res.Body.Close()
				body := &trackedBody{Reader: strings.NewReader("x")}
				_, err = client.Do(must(http.NewRequestWithContext(ctx, "POST", "http://a/", body)))
				var late *clientlimit.Error
				if !errors.As(err, &late) || !errors.Is(err, core.ErrDeadline) || time.Since(p.start) != 0 || len(p.at()) != 1 || body.closed != 1 {
					t.Fatalf("%v after %v, %d calls: want an Error at once, nothing sent, the body closed", err, time.Since(p.start), len(p.at()))
				}
				if left := time.Until(late.Until); late.Key != "host:a" || left < time.Minute || left > time.Minute+time.Second {
					t.Errorf("%+v: want the end of the pause", late)
				}
			})
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What is sent again depends on the answer, the method and the body.
func TestWhatIsSentAgain(t *testing.T) {
	refuse := func(status int, fields ...string) func(int) *http.Response {
		return func(int) *http.Response { return respond(status, fields...) }
	}
	broken := func(int) *http.Response { return nil }
	for rule, c := range map[string]struct {
		first   func(int) *http.Response
		method  string
		body    string // "", "again" or "once"
		options []clientlimit.Option
		want    int // calls
	}{
		"429 of a POST that can be sent again":     {refuse(429, "Retry-After", "1"), "POST", "again", nil, 2},
		"429 of a POST without a body":             {refuse(429), "POST", "", nil, 2},
		"429 of a POST that can't":                 {refuse(429, "Retry-After", "1"), "POST", "once", nil, 1},
		"429 of a PUT that can't":                  {refuse(429, "Retry-After", "1"), "PUT", "once", nil, 1},
		"403 that says when to come back":          {refuse(403, "Retry-After", "1"), "POST", "again", nil, 2},
		"403 with nothing left":                    {refuse(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2"), "GET", "", nil, 2},
		"403 for another reason":                   {refuse(403), "GET", "", nil, 1},
		"503 of a GET":                             {refuse(503, "Retry-After", "1"), "GET", "", nil, 2},
		"503 that does not say for how long":       {refuse(503), "GET", "", nil, 1},
		"503 of a PUT":                             {refuse(503, "Retry-After", "1"), "PUT", "again", nil, 2},
		"503 of a POST":                            {refuse(503, "Retry-After", "1"), "POST", "again", nil, 1},
		"503 of a POST that may be repeated":       {refuse(503, "Retry-After", "1"), "POST", "again", []clientlimit.Option{clientlimit.WithRetryOf(all)}, 2},
		"a lost connection of a GET":               {broken, "GET", "", nil, 2},
		"a lost connection of a DELETE":            {broken, "DELETE", "", nil, 2},
		"a lost connection of a POST":              {broken, "POST", "again", nil, 1},
		"a lost connection of a PATCH":             {broken, "PATCH", "again", nil, 1},
		"a POST without connection":                {nil, "POST", "again", nil, 2},
		"429 with one attempt":                     {refuse(429, "Retry-After", "1"), "GET", "", []clientlimit.Option{clientlimit.WithAttempts(1)}, 1},
		"429 of a wait that is longer than wanted": {refuse(429, "Retry-After", "100000"), "GET", "", nil, 1},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var bodies []string
				calls := 0
				next := roundTrip(func(r *http.Request) (*http.Response, error) {
					calls++
					if calls == 1 && c.first == nil {
						return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
					}
					if r.Body != nil {
						text, _ := io.ReadAll(r.Body)
						bodies = append(bodies, string(text))
						r.Body.Close()
					}
					if calls > 1 {
						return respond(200), nil
					}
					if res := c.first(calls); res != nil {
						return res, nil
					}
					return nil, io.ErrUnexpectedEOF
				})
				var body io.Reader
				switch c.body {
				case "again":
					body = strings.NewReader("order 7")
				case "once":
					body = io.NopCloser(strings.NewReader("order 7"))
				}
				client := &http.Client{Transport: clientlimit.New(next, c.options...)}
				status, err := do(client, must(http.NewRequest(c.method, "http://a/", body)))
				if calls != c.want {
					t.Errorf("%d calls, want %d: %d, %v", calls, c.want, status, err)
				}
				if c.want == 2 && (err != nil || status != 200) {
					t.Errorf("%d, %v: want the answer of the second attempt", status, err)
				}
				if c.body == "again" && slices.ContainsFunc(bodies, func(b string) bool { return b != "order 7" }) {
					t.Errorf("bodies %q: want the same each time", bodies)
				}
			})
		})
	}
}

func all(*http.Request) bool { return true }

func TestAServiceThatNeverRelentsIsBelieved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newProvider(refusing(time.Hour, "1"))
		client := &http.Client{Transport: clientlimit.New(p)}
		status, err := get(t.Context(), t, client, "a")
		if err != nil || status != 429 || len(p.at()) != 5 {
			t.Errorf("%d, %v after %d calls: want the refusal after 5", status, err, len(p.at()))
		}
		for i, body := range p.bodies {
			if !body.closed {
				t.Errorf("the body of answer %d was not closed", i)
			}
		}
	})
}

func TestACanceledRequestStopsWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newProvider(refusing(time.Hour, "30"))
		client := &http.Client{Transport: clientlimit.New(p)}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		body := &trackedBody{Reader: strings.NewReader("x")}
		go func() { _, _ = get(t.Context(), t, client, "a") }() // begins the pause
		time.Sleep(time.Millisecond)
		_, err := client.Do(must(http.NewRequestWithContext(ctx, "POST", "http://a/", body)))
		if !errors.Is(err, context.Canceled) || time.Since(p.start) != time.Second || body.closed != 1 {
			t.Errorf("%v after %v, body closed %d times: want context.Canceled after 1s, once", err, time.Since(p.start), body.closed)
		}
	})
}

// More requests than the queue has places fail at once. Interactive requests go
// before a batch, which has one turn of eight.
func TestTheQueueIsFairAndBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, r.URL.Path)
			return respond(200), nil
		})
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.PerSecond(1)}}))
		client := &http.Client{Transport: clientlimit.New(next, clientlimit.WithLimiter(limiter, clientlimit.ByHost()), clientlimit.WithQueue(20))}
		full := 0
		var all sync.WaitGroup
		send := func(ctx context.Context, path string) {
			all.Go(func() {
				if _, err := do(client, must(http.NewRequestWithContext(ctx, "GET", "http://a"+path, nil))); errors.Is(err, clientlimit.ErrQueueFull) {
					mu.Lock()
					full++
					mu.Unlock()
				} else if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond) // so that the order of arrival is known
		}
		send(t.Context(), "/first")
		for range 10 {
			send(clientlimit.AsBatch(t.Context()), "/batch")
		}
		for i := range 23 {
			send(t.Context(), "/"+string(rune('a'+i)))
		}
		all.Wait()
		if full != 3 {
			t.Errorf("%d requests found the queue full, want 3: it has 20 places", full)
		}
		var interactive, batch []string
		lastBatch := 0
		for i, path := range order[1:] {
			if path == "/batch" {
				batch = append(batch, path)
				if len(interactive) < 20 && i-lastBatch > 8 {
					t.Errorf("the batch waited for %d turns, want 8 at most: %v", i-lastBatch, order)
				}
				lastBatch = i
			} else {
				interactive = append(interactive, path)
			}
		}
		if !slices.IsSorted(interactive) || len(interactive) != 20 || len(batch) != 10 {
			t.Errorf("%v: want interactive requests in the order of their arrival, and all of the batch", order)
		}
	})
}

// Slots are held until the body is over.
func TestSlotsAreHeldUntilTheBodyIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1)}}))
		transport := clientlimit.New(newProvider(served), clientlimit.WithLimiter(limiter, clientlimit.ByHost()))
		client, began := &http.Client{Transport: transport}, time.Now()
		res := must(client.Get("http://a/"))
		time.AfterFunc(10*time.Second, func() { res.Body.Close() })
		if status, err := get(t.Context(), t, client, "a"); err != nil || status != 200 || time.Since(began) < 10*time.Second || time.Since(began) > 11*time.Second {
			t.Errorf("%d, %v after %v: want 200 when the first body is closed", status, err, time.Since(began))
		}
		if _, err := get(t.Context(), t, client, "a"); err != nil || time.Since(began) > 12*time.Second {
			t.Errorf("%v after %v: a body that was read to its end holds no slot", err, time.Since(began))
		}
		if s := transport.State("host:a"); s != (clientlimit.State{}) {
			t.Errorf("at rest: %+v", s)
		}
	})
}

// A pause is shared by processes with a common store, and is as long as the
// longest.
func TestPausesAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := core.NewMemoryStore()
		p := newProvider(refusing(5*time.Second, "5"))
		var all sync.WaitGroup
		for process := range 4 {
			client := &http.Client{Transport: clientlimit.New(p, clientlimit.WithSharedPauses(store))}
			all.Go(func() {
				time.Sleep(time.Duration(process) * time.Second)
				if status, err := get(t.Context(), t, client, "a"); err != nil || status != 200 {
					t.Error(status, err)
				}
			})
		}
		all.Wait()
		at := p.at()
		if len(at) != 5 || at[1] < 5*time.Second || at[4] > 7*time.Second {
			t.Errorf("calls at %v: want one that is refused, and the others when its pause is over", at)
		}
	})
}

// What a request really took is settled when its answer is over.
func TestTokensAreSettled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.PerDay(1000).WithUnit("tokens")}}))
		client := &http.Client{Transport: clientlimit.New(newProvider(served), clientlimit.WithLimiter(limiter, clientlimit.ByHost()),
			clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 400}, nil }),
			clientlimit.WithSettle(func(a *clientlimit.Answer) core.Units { return core.Units{"tokens": int64(len(a.Read))} }))}
		if _, err := get(t.Context(), t, client, "a"); err != nil {
			t.Fatal(err)
		}
		res := must(limiter.Peek(t.Context(), "host:a"))
		if left := res.Limits()[0].Remaining; left != 1000-int64(len("answer")) {
			t.Errorf("%d tokens are left of 1000: want those of the answer taken", left)
		}
	})
}

func TestNewReportsAllMistakes(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		for _, option := range []string{"WithLimiter limiter", "WithLimiter key", "WithKey", "WithQueue", "WithAttempts", "WithMaxWait", "WithSharedPauses", "WithObserver", "ByHeader"} {
			if err == nil || !strings.Contains(err.Error(), "clientlimit."+option+":") {
				t.Errorf("no word of %s: %v", option, err)
			}
		}
	}()
	clientlimit.New(nil, clientlimit.WithLimiter(nil, nil), clientlimit.WithKey(nil), clientlimit.WithQueue(-1), clientlimit.WithAttempts(0),
		clientlimit.WithMaxWait(0), clientlimit.WithSharedPauses(nil), clientlimit.WithObserver(nil), clientlimit.WithKey(clientlimit.ByHeader("a b")))
}

// What a lying server says makes no request wait for longer than its caller
// wants, and the client asks again in time.
func TestALyingServerIsBounded(t *testing.T) {
	for lie, fields := range map[string][]string{
		"a pause of centuries":          {"Retry-After", "99999999999"},
		"a pause below zero":            {"Retry-After", "-1"},
		"a date of the past":            {"Retry-After", "Mon, 01 Jan 1990 00:00:00 GMT"},
		"a Date of the past":            {"Date", "Mon, 01 Jan 1990 00:00:00 GMT", "Retry-After", "Mon, 01 Jan 2300 00:00:00 GMT"},
		"nothing left for ever":         {"RateLimit", `"a";r=0;t=999999999999999`},
		"contradictions":                {"RateLimit", `"a";r=0;t=9, "a";r=999;t=1`, "X-RateLimit-Remaining", "-5", "Retry-After", "0"},
		"a window that ends in decades": {"X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999999"},
	} {
		for _, status := range []int{200, 429, 403, 503} {
			inBubble(t, func(t *testing.T) {
				p := newProvider(func(n int, _ *http.Request) *http.Response {
					if n <= 3 {
						return respond(status, fields...)
					}
					return respond(200)
				})
				client := &http.Client{Transport: clientlimit.New(p, clientlimit.WithMaxWait(10*time.Second))}
				for range 400 { // for more than an hour
					began := time.Now()
					if _, err := get(t.Context(), t, client, "a"); err != nil && !errors.Is(err, core.ErrDeadline) {
						t.Errorf("%s with %d: %v", lie, status, err)
					}
					if waited := time.Since(began); waited > 10*time.Second {
						t.Errorf("%s with %d: a request waited for %v, want 10s at most", lie, status, waited)
					}
					time.Sleep(30 * time.Second)
				}
				if len(p.at()) < 4 {
					t.Errorf("%s with %d: %d calls in hours: want the client to ask again", lie, status, len(p.at()))
				}
			})
		}
	}
}

// Keys that are not used are forgotten, so that their number does not matter.
func TestIdleKeysAreForgotten(t *testing.T) {
	p := newProvider(func(int, *http.Request) *http.Response { return respond(429, "Retry-After", "3600") })
	transport := clientlimit.New(p)
	client := &http.Client{Transport: transport}
	for i := range 10_001 {
		if status, err := get(t.Context(), t, client, "host"+strconv.Itoa(i)); err != nil || status != 429 {
			t.Fatal(status, err)
		}
	}
	if first, last := transport.State("host:host0"), transport.State("host:host10000"); !first.PausedUntil.IsZero() || last.PausedUntil.IsZero() {
		t.Errorf("the first key is %+v and the last is %+v: want the oldest one forgotten", first, last)
	}
}

// slowBody is a stream that has a byte every 300 ms.
type slowBody struct{ left int }

func (b *slowBody) Close() error { return nil }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(300 * time.Millisecond)
	b.left--
	p[0] = 'x'
	return 1, nil
}

// A stream that takes longer than MaxHold keeps its slot for as long as it is
// read.
func TestAStreamHoldsItsSlots(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1).WithMaxHold(time.Second)}}))
		p := newProvider(func(n int, _ *http.Request) *http.Response {
			res := respond(200)
			if n == 1 {
				res.Body = &slowBody{left: 1000} // five minutes
			}
			return res
		})
		client := &http.Client{Transport: clientlimit.New(p, clientlimit.WithLimiter(limiter, clientlimit.ByHost()), clientlimit.WithMaxWait(10*time.Minute))}
		res := must(client.Get("http://a/"))
		go func() {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}()
		if _, err := get(t.Context(), t, client, "a"); err != nil || p.at()[1] < 5*time.Minute || p.at()[1] > 5*time.Minute+time.Second {
			t.Errorf("%v, calls at %v: want the second when the stream is over", err, p.at())
		}
	})
}

// Transports that tests fake may leave out what those of net/http have.
func TestAnswersWithoutABody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, answer := range []*http.Response{nil, {StatusCode: 200}, {StatusCode: 429}} {
			settled := 0
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil }),
				clientlimit.WithAttempts(2), clientlimit.WithSettle(func(*clientlimit.Answer) core.Units { settled++; return nil }))}
			res, err := client.Post("http://a/", "", nil)
			if answer == nil {
				if err == nil {
					t.Error("neither an answer nor an error: want an error")
				}
				continue
			}
			if err != nil || res.Body.Close() != nil || res.StatusCode != answer.StatusCode || settled != 1-answer.StatusCode/429 {
				t.Errorf("%v, %v, settled %d times: want the answer of %d", res, err, settled, answer.StatusCode)
			}
		}
	})
}

// A transport, an observer or a settlement that panics, below a caller that
// recovers, leaves nothing behind: the slot is free, and nobody waits.
func TestAPanicLeavesNothingBehind(t *testing.T) {
	for who := range 3 {
		inBubble(t, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1)}}))
			calls, bug := 0, func(at int) {
				if at == who {
					panic("bug")
				}
			}
			transport := clientlimit.New(roundTrip(func(*http.Request) (*http.Response, error) {
				if calls++; calls == 1 {
					bug(0)
				}
				return respond(200), nil
			}), clientlimit.WithLimiter(limiter, clientlimit.ByHost()),
				clientlimit.WithObserver(func(_ context.Context, e clientlimit.Event) {
					if e.Queued > 0 {
						bug(1)
					}
				}),
				clientlimit.WithSettle(func(*clientlimit.Answer) core.Units { bug(2); return nil }))
			client := &http.Client{Transport: transport}
			slot := core.Must(limiter.Allow(t.Context(), "host:a")) // so the first request waits
			time.AfterFunc(time.Second, func() { _ = slot.Release(t.Context()) })
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("case %d: no panic", who)
					}
				}()
				_, _ = get(t.Context(), t, client, "a")
			}()
			time.Sleep(2 * time.Second)
			if s := transport.State("host:a"); s != (clientlimit.State{}) {
				t.Errorf("case %d: at rest %+v", who, s)
			}
			if res := core.Must(limiter.Allow(t.Context(), "host:a")); !res.Allowed {
				t.Errorf("case %d: the slot is lost", who)
			}
		})
	}
}

// A body that can't be read again is the error of its request, and leaves
// nothing behind.
func TestAGetBodyThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.InFlight(1)}}))
		transport := clientlimit.New(newProvider(refusing(time.Second, "1")), clientlimit.WithLimiter(limiter, clientlimit.ByHost()))
		req, lost := must(http.NewRequest("POST", "http://a/", strings.NewReader("order 7"))), errors.New("the file is gone")
		req.GetBody = func() (io.ReadCloser, error) { return nil, lost }
		if _, err := do(&http.Client{Transport: transport}, req); !errors.Is(err, lost) {
			t.Errorf("%v: want the error of GetBody", err)
		}
		if res := must(limiter.Allow(t.Context(), "host:a")); !res.Allowed || transport.State("host:a") != (clientlimit.State{}) {
			t.Errorf("%+v: a slot or a request is left behind", transport.State("host:a"))
		}
	})
}

// A stream is settled once, when it is over, by what stands at its end.
func TestAStreamIsSettledByItsEnd(t *testing.T) {
	for how, read := range map[string]func(io.ReadCloser){
		"to its end": func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b); b.Close() },
		"in parts": func(b io.ReadCloser) {
			_, _ = io.CopyN(io.Discard, b, 999_990)
			_, _ = io.ReadAll(b)
			b.Close()
			b.Close()
		},
	} {
		inBubble(t, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "own", Limits: []core.Limit{core.PerDay(1000).WithUnit("tokens")}}))
			p := newProvider(func(int, *http.Request) *http.Response {
				res := respond(200)
				res.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 1_000_000) + "usage 37"))
				return res
			})
			settled := 0
			client := &http.Client{Transport: clientlimit.New(p, clientlimit.WithLimiter(limiter, clientlimit.ByHost()),
				clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 900}, nil }),
				clientlimit.WithSettle(func(a *clientlimit.Answer) core.Units {
					settled++
					if len(a.Read) != 64<<10 || !strings.HasSuffix(string(a.Read), "usage 37") {
						t.Errorf("%s: %d bytes, want the last 64 KiB", how, len(a.Read))
					}
					return core.Units{"tokens": 37}
				}))}
			read(must(client.Get("http://a/")).Body)
			if left := must(limiter.Peek(t.Context(), "host:a")).Limits()[0].Remaining; left != 963 || settled != 1 {
				t.Errorf("%s: %d tokens are left after %d settlements, want 963 after one", how, left, settled)
			}
		})
	}
}

// Who uses clientlimit gets the standard library and this module alone.
func TestNothingElseIsImported(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := strings.Fields(string(out))
	for _, path := range seen {
		if !strings.HasPrefix(path, "github.com/tokenbucket-go/ratelimit/") || strings.Contains(path, "redisstore") {
			t.Errorf("clientlimit imports %s", path)
		}
	}
	if !slices.Contains(seen, "github.com/tokenbucket-go/ratelimit/core") {
		t.Fatalf("the premise: it imports core: %v", seen)
	}
}

// hangingBody has no end, until it is closed.
type hangingBody struct{ closed chan struct{} }

func (b hangingBody) Read([]byte) (int, error) { <-b.closed; return 0, net.ErrClosed }
func (b hangingBody) Close() error             { close(b.closed); return nil }

// zeros are a body without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
func (zeros) Close() error               { return nil }

// A refusal whose body hangs, or never ends, is sent again in time.
func TestBodiesOfRefusalsAreBounded(t *testing.T) {
	for what, body := range map[string]func() io.ReadCloser{
		"hangs":     func() io.ReadCloser { return hangingBody{make(chan struct{})} },
		"never end": func() io.ReadCloser { return zeros{} },
	} {
		inBubble(t, func(t *testing.T) {
			p := newProvider(func(n int, _ *http.Request) *http.Response {
				if n > 1 {
					return respond(200)
				}
				res := respond(429, "Retry-After", "1")
				res.Body = body()
				return res
			})
			status, err := get(t.Context(), t, &http.Client{Transport: clientlimit.New(p)}, "a")
			if err != nil || status != 200 || p.at()[1] > 1200*time.Millisecond || !p.bodies[0].closed {
				t.Errorf("%s: %d, %v, calls at %v: want the second after the pause, and the first body closed", what, status, err, p.at())
			}
		})
	}
}
