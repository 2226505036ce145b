package clientlimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

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

// Slots are held until the body is over: read to its end, or closed. A request
// that waits for one in this process goes at once.
func TestSlotsAreHeldUntilTheBodyIsOver(t *testing.T) {
	for how, end := range map[string]func(io.ReadCloser){"closed": func(b io.ReadCloser) { b.Close() }, "read": func(b io.ReadCloser) { _, _ = io.ReadAll(b) }} {
		synctest.Test(t, func(t *testing.T) {
			client := &http.Client{Transport: clientlimit.New(newService(served), clientlimit.WithLimiter(own(core.InFlight(1)), clientlimit.ByHost()))}
			began := time.Now()
			res := must(client.Get("http://a/"))
			time.AfterFunc(10*time.Second+time.Millisecond, func() { end(res.Body) })
			if status, err := get(t.Context(), t, client, "a"); err != nil || status != 200 || time.Since(began) != 10*time.Second+time.Millisecond {
				t.Errorf("%s: %d, %v after %v: want 200 as soon as the first body is over", how, status, err, time.Since(began))
			}
		})
	}
}

// A stream that takes longer than MaxHold keeps its slot for as long as it is
// read.
func TestAStreamHoldsItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, _ *http.Request) *http.Response {
			res := respond(200)
			if n == 1 {
				res.Body = &slowBody{left: 1000} // five minutes
			}
			return res
		})
		client := &http.Client{Transport: clientlimit.New(s,
			clientlimit.WithLimiter(own(core.InFlight(1).WithMaxHold(time.Second)), clientlimit.ByHost()), clientlimit.WithMaxWait(10*time.Minute))}
		res := must(client.Get("http://a/"))
		go func() {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}()
		if _, err := get(t.Context(), t, client, "a"); err != nil || s.at()[1] != 5*time.Minute {
			t.Errorf("%v, calls at %v: want the second when the stream is over", err, s.at())
		}
	})
}

// A transport, a refusal function or a settlement that panics, below a caller
// that recovers, leaves nothing behind: the slot is free, and nobody waits.
func TestAPanicLeavesNothingBehind(t *testing.T) {
	for who := range 3 {
		synctest.Test(t, func(t *testing.T) {
			limiter := own(core.InFlight(1))
			bug := func(at int) {
				if at == who {
					who = -1
					panic("bug")
				}
			}
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(*http.Request) (*http.Response, error) {
				bug(0)
				return respond(200), nil
			}), clientlimit.WithLimiter(limiter, clientlimit.ByHost()),
				clientlimit.WithRefusal(func(*http.Response, []byte) clientlimit.Refusal { bug(1); return clientlimit.Refusal{} }),
				clientlimit.WithSettle(func(*http.Response, []byte) core.Units { bug(2); return nil }))}
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_, _ = get(t.Context(), t, client, "a")
			}()
			began := time.Now()
			if _, err := get(t.Context(), t, client, "a"); err != nil || time.Since(began) != 0 {
				t.Errorf("%v after %v: want the slot back at once", err, time.Since(began))
			}
		})
	}
}

// What a request really took is settled once, when its answer is over, by what
// stands at the end. A refused request took no tokens.
func TestTokensAreSettled(t *testing.T) {
	for how, read := range map[string]func(io.ReadCloser){
		"at once": func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b); b.Close() },
		"in parts": func(b io.ReadCloser) {
			_, _ = io.CopyN(io.Discard, b, 999_990)
			_, _ = io.ReadAll(b)
			b.Close()
			b.Close()
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter, settled := own(core.PerDay(1000).WithUnit("tokens")), 0
			long := saying(200, strings.Repeat("x", 1_000_000)+"usage 37")
			s := newService(but(long, map[int]reply{1: say(429, "Retry-After", "1")}))
			client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithLimiter(limiter, clientlimit.ByHost()),
				clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 900}, nil }),
				clientlimit.WithSettle(func(_ *http.Response, end []byte) core.Units {
					settled++
					if len(end) != 64<<10 || !strings.HasSuffix(string(end), "usage 37") {
						t.Errorf("%s: %d bytes, want the last 64 KiB", how, len(end))
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

// A request that the limiter can never let pass fails at once.
func TestWhatNeverFitsFailsAtOnce(t *testing.T) {
	client := &http.Client{Transport: clientlimit.New(newService(served), clientlimit.WithLimiter(own(core.PerDay(1000).WithUnit("tokens")), clientlimit.ByHost()),
		clientlimit.WithUnits(func(*http.Request) (core.Units, error) { return core.Units{"tokens": 1001}, nil }))}
	if _, err := get(t.Context(), t, client, "a"); !errors.Is(err, core.ErrCapacity) {
		t.Errorf("%v: want ErrCapacity", err)
	}
}

// A request that found no connection gives its tokens back.
func TestARequestWithoutConnectionTakesNothing(t *testing.T) {
	limiter := own(core.PerHour(2))
	client := &http.Client{Transport: clientlimit.New(nil, clientlimit.WithLimiter(limiter, clientlimit.ByHost()), clientlimit.WithAttempts(1))}
	if _, err := get(t.Context(), t, client, "127.0.0.1:1"); err == nil {
		t.Fatal("the premise: nothing listens on port 1")
	}
	if left := must(limiter.Peek(t.Context(), core.JoinKey("host", "127.0.0.1:1"))).Remaining; left != 2 {
		t.Errorf("%d tokens are left, want 2", left)
	}
}

// distant is a store that takes 10 ms to answer.
type distant struct{ *core.MemoryStore }

func (s distant) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	time.Sleep(10 * time.Millisecond)
	return s.MemoryStore.Do(ctx, r)
}

// A pause begins while a request asks the store for its token. The request gives
// it back and waits, too.
func TestAPauseBeginsWhileTheStoreIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := core.Must(core.NewLimiter(distant{core.NewMemoryStore()}, core.Policy{Name: "own", Limits: []core.Limit{core.PerHour(2)}}))
		next := newService(func(int, *http.Request) *http.Response {
			time.Sleep(5 * time.Millisecond)
			return respond(429, "Retry-After", "10")
		})
		client := &http.Client{Transport: clientlimit.New(next, clientlimit.WithLimiter(limiter, clientlimit.ByHost()), clientlimit.WithAttempts(1))}
		var all sync.WaitGroup
		all.Go(func() { _, _ = get(t.Context(), t, client, "a") }) // asks until 10 ms, and is answered at 15 ms
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		if _, err := get(ctx, t, client, "a"); !errors.Is(err, core.ErrDeadline) || len(next.at()) != 1 {
			t.Errorf("%v after %d calls: want ErrDeadline, and one call", err, len(next.at()))
		}
		all.Wait()
		if left := must(limiter.Peek(t.Context(), "host:a")).Remaining; left != 1 {
			t.Errorf("%d tokens are left, want 1: the second request was not sent", left)
		}
	})
}
