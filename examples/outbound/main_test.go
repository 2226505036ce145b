package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// fake is a provider. It notes when it was called and answers 429 while refuse
// says so.
type fake struct {
	mu     sync.Mutex
	start  time.Time
	calls  map[string][]time.Duration // by host
	bodies []string
	refuse func(call int) (retryAfter string)
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[r.URL.Host] = append(f.calls[r.URL.Host], time.Since(f.start))
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		f.bodies = append(f.bodies, string(body))
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	if f.refuse != nil {
		if after := f.refuse(len(f.calls[r.URL.Host])); after != "" {
			resp.StatusCode = http.StatusTooManyRequests
			resp.Header.Set("Retry-After", after)
		}
	}
	return resp, nil
}

// inBubble runs a test on synctest's clock, which the store, the waits and the
// deadlines share.
func inBubble(t *testing.T, test func(t *testing.T, provider *fake, client *http.Client)) {
	synctest.Test(t, func(t *testing.T) {
		provider := &fake{start: time.Now(), calls: make(map[string][]time.Duration)}
		test(t, provider, &http.Client{Transport: newTransport(core.NewMemoryStore(), provider)})
	})
}

func ms(n ...int) (d []time.Duration) {
	for _, n := range n {
		d = append(d, time.Duration(n)*time.Millisecond)
	}
	return d
}

func (f *fake) want(t *testing.T, host string, want []time.Duration) {
	t.Helper()
	got := slices.Clone(f.calls[host])
	for i := range got {
		got[i] = got[i].Round(time.Millisecond)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s was called at %v, want %v", host, got, want)
	}
}

func TestWorkersShareAHostsRate(t *testing.T) {
	inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for range 2 {
					for _, url := range []string{"http://a/", "http://b/"} {
						if status, err := get(t.Context(), client, url, time.Minute); err != nil {
							t.Error(status, err)
						}
					}
				}
			})
		}
		workers.Wait()
		// 5 at once, then one every 200 ms, for each host on its own.
		provider.want(t, "a", ms(0, 0, 0, 0, 0, 200, 400, 600))
		if n := len(provider.calls["b"]); n != 8 {
			t.Errorf("b was called %d times, want 8", n)
		}
	})
}

func TestADeadlineThatIsTooShortFailsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
		for range 5 {
			get(t.Context(), client, "http://a/", time.Second)
		}
		_, err := get(t.Context(), client, "http://a/", 199*time.Millisecond)
		if !errors.Is(err, core.ErrDeadline) || time.Since(provider.start) != 0 {
			t.Errorf("after %v: %v, want ErrDeadline at once", time.Since(provider.start), err)
		}
		if _, err := get(t.Context(), client, "http://a/", 201*time.Millisecond); err != nil {
			t.Errorf("with a deadline that suffices: %v", err)
		}
	})
}

func TestA429PausesEveryWorker(t *testing.T) {
	for name, after := range map[string]func() string{
		"seconds": func() string { return "3" },
		"date": func() string {
			return time.Now().Add(3 * time.Second).Truncate(time.Second).Add(time.Second).UTC().Format(http.TimeFormat)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
				provider.refuse = func(call int) string {
					if call == 6 { // the first after the burst, while others wait for their tokens
						return after()
					}
					return ""
				}
				var workers sync.WaitGroup
				for range 8 {
					workers.Go(func() {
						if status, err := get(t.Context(), client, "http://a/", time.Minute); err != nil {
							t.Error(status, err)
						}
					})
				}
				workers.Wait()
				calls := provider.calls["a"]
				if len(calls) != 9 {
					t.Fatalf("%d calls, want 9: 8 and the one that was refused", len(calls))
				}
				for _, at := range calls[6:] {
					if at < 3200*time.Millisecond {
						t.Errorf("a call at %v, during the pause from 200ms to 3.2s", at)
					}
				}
			})
		})
	}
}

func TestAPauseBeyondTheDeadlineFailsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
		provider.refuse = func(int) string { return "60" }
		if status, err := get(t.Context(), client, "http://a/", 10*time.Second); err != nil || time.Since(provider.start) != 0 {
			t.Errorf("after %v: %s, %v, want the provider's refusal at once", time.Since(provider.start), status, err)
		}
		_, err := get(t.Context(), client, "http://a/", 10*time.Second)
		if !errors.Is(err, core.ErrDeadline) || time.Since(provider.start) != 0 {
			t.Errorf("after %v: %v, want ErrDeadline at once", time.Since(provider.start), err)
		}
		if len(provider.calls["a"]) != 1 {
			t.Errorf("%d calls, want 1", len(provider.calls["a"]))
		}
	})
}

func TestACancelledCallEndsItsPause(t *testing.T) {
	inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
		provider.refuse = func(int) string { return "30" }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := get(ctx, client, "http://a/", time.Hour)
		if !errors.Is(err, context.Canceled) || time.Since(provider.start) != time.Second {
			t.Errorf("after %v: %v, want context.Canceled after 1s", time.Since(provider.start), err)
		}
	})
}

func TestBodiesAreSentAgainWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
		provider.refuse = func(call int) string {
			if call == 1 {
				return "1"
			}
			return ""
		}
		resp, err := client.Post("http://a/", "text/plain", strings.NewReader("order 7"))
		if err != nil || resp.StatusCode != http.StatusOK || !slices.Equal(provider.bodies, []string{"order 7", "order 7"}) {
			t.Errorf("%v, bodies %q, want the same one twice", err, provider.bodies)
		}
	})
}

func TestAProviderThatNeverRelentsIsBelieved(t *testing.T) {
	inBubble(t, func(t *testing.T, provider *fake, client *http.Client) {
		provider.refuse = func(int) string { return "1" }
		status, err := get(t.Context(), client, "http://a/", time.Minute)
		if err != nil || status != "" || len(provider.calls["a"]) != 5 {
			t.Errorf("%s, %v after %d calls, want the 429 after 5", status, err, len(provider.calls["a"]))
		}
	})
}
