package clientlimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

// After a pause one request asks whether it is really over. The others follow
// when it is answered, or after a second.
func TestAfterAPauseOneRequestGoesFirst(t *testing.T) {
	for answered, next := range map[time.Duration]time.Duration{300 * time.Millisecond: 300 * time.Millisecond, 5 * time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := newService(func(n int, _ *http.Request) *http.Response {
				switch {
				case n == 21:
					return respond(429, "Retry-After", "1")
				case n > 21:
					time.Sleep(answered)
				}
				return respond(200)
			})
			client := &http.Client{Transport: clientlimit.New(s)}
			var all sync.WaitGroup
			for _, n := range []int{20, 1, 9} { // the service answers many at once; it refuses one; others come
				for range n {
					all.Go(func() { _, _ = get(t.Context(), t, client, "a") })
				}
				synctest.Wait()
			}
			all.Wait()
			if at := s.at()[21:]; at[0] < time.Second || at[1] != at[0]+next {
				t.Errorf("answers take %v: calls at %v, want one after the pause, and the next %v later", answered, at, next)
			}
		})
	}
}

func TestAWaitForTooLongFailsAtOnce(t *testing.T) {
	for rule, c := range map[string]struct {
		timeout time.Duration
		options []clientlimit.Option
	}{
		"beyond the deadline":     {10 * time.Second, nil},
		"beyond the longest wait": {time.Hour, []clientlimit.Option{clientlimit.WithMaxWait(10 * time.Second)}},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(refusing(time.Hour, "60"))
				client := &http.Client{Transport: clientlimit.New(s, c.options...)}
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				res, err := client.Do(must(http.NewRequestWithContext(ctx, http.MethodGet, "http://a/", nil)))
				if err != nil || res.StatusCode != http.StatusTooManyRequests {
					t.Fatalf("%v, %v: want the refusal itself", res, err)
				}
				if body, err := io.ReadAll(res.Body); string(body) != "answer" || err != nil {
					t.Errorf("its body is %q, %v: want it whole", body, err)
				}
				res.Body.Close()
				body := watched("x")
				_, err = client.Do(must(http.NewRequestWithContext(ctx, http.MethodPost, "http://a/", body)))
				var late *clientlimit.Error
				if !errors.As(err, &late) || !errors.Is(err, core.ErrDeadline) || time.Since(s.start) != 0 || len(s.at()) != 1 || body.closed != 1 {
					t.Fatalf("%v after %v, %d calls: want an Error at once, nothing sent, the body closed", err, time.Since(s.start), len(s.at()))
				}
				if left := time.Until(late.Until); late.Key != "host:a" || left < time.Minute || left > time.Minute+time.Second {
					t.Errorf("%+v: want the end of the pause", late)
				}
			})
		})
	}
}

// A request behind others fails at once if the limiter can't have tokens for all
// of them in time.
func TestAWaitBehindOthersIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: clientlimit.New(newService(served), clientlimit.WithLimiter(own(core.PerSecond(1)), clientlimit.ByHost()))}
		var all sync.WaitGroup
		for range 11 {
			all.Go(func() { _, _ = get(t.Context(), t, client, "a") })
			synctest.Wait()
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := get(ctx, t, client, "a"); !errors.Is(err, core.ErrDeadline) || time.Since(began) != 0 {
			t.Errorf("%v after %v: want ErrDeadline at once, because 10 others wait for 10 s", err, time.Since(began))
		}
		all.Wait()
	})
}

// What is sent again depends on the answer, the method and the body.
func TestWhatIsSentAgain(t *testing.T) {
	const spent = `{"error": {"type": "insufficient_quota", "code": "insufficient_quota"}}`
	broken := func() *http.Response { return nil }
	key := func(r *http.Request) { r.Header.Set("Idempotency-Key", `"7"`) }
	for rule, c := range map[string]struct {
		first  reply // nil: there is no connection
		method string
		body   string // "", "again" or "once"
		change func(*http.Request)
		want   int // calls
	}{
		"429 of a POST that can be sent again":  {say(429, "Retry-After", "1"), "POST", "again", nil, 2},
		"429 of a POST without a body":          {say(429), "POST", "", nil, 2},
		"429 of a POST that can't":              {say(429, "Retry-After", "1"), "POST", "once", nil, 1},
		"429 of a PUT that can't":               {say(429, "Retry-After", "1"), "PUT", "once", nil, 1},
		"429 of a HEAD":                         {say(429, "Retry-After", "1"), "HEAD", "", nil, 2},
		"429 after a longer wait than wanted":   {say(429, "Retry-After", "100000"), "GET", "", nil, 1},
		"429 of a spent budget":                 {saying(429, spent), "GET", "", nil, 1},
		"403 that says when to come back":       {say(403, "Retry-After", "1"), "POST", "again", nil, 2},
		"403 with nothing left":                 {say(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2"), "GET", "", nil, 2},
		"403 for another reason":                {say(403), "GET", "", nil, 1},
		"403 of a secondary limit":              {saying(403, `{"message": "You have exceeded a secondary rate limit."}`), "GET", "", nil, 2},
		"503 of a GET":                          {say(503, "Retry-After", "1"), "GET", "", nil, 2},
		"529 of a GET":                          {say(529, "Retry-After", "1"), "GET", "", nil, 2},
		"503 that does not say for how long":    {say(503), "GET", "", nil, 1},
		"503 of a PUT":                          {say(503, "Retry-After", "1"), "PUT", "again", nil, 2},
		"503 of a POST":                         {say(503, "Retry-After", "1"), "POST", "again", nil, 1},
		"503 of a POST with an Idempotency-Key": {say(503, "Retry-After", "1"), "POST", "again", key, 2},
		"a lost connection of a GET":            {broken, "GET", "", nil, 2},
		"a lost connection of a DELETE":         {broken, "DELETE", "", nil, 2},
		"a lost connection of a POST":           {broken, "POST", "again", nil, 1},
		"a lost connection of a PATCH":          {broken, "PATCH", "again", nil, 1},
		"a lost connection of a POST with one":  {broken, "POST", "again", key, 2},
		"a POST without connection":             {nil, "POST", "again", nil, 2},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
					if res := c.first(); res != nil {
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
				req := must(http.NewRequest(c.method, "http://a/", body))
				if c.change != nil {
					c.change(req)
				}
				status, err := do(&http.Client{Transport: clientlimit.New(next, clientlimit.WithMaxWait(2*time.Minute))}, req)
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

func TestAttemptsEnd(t *testing.T) {
	broken := func(int, *http.Request) *http.Response { return nil }
	refuses := but(say(429, "Retry-After", "3"), nil)
	for10s := []clientlimit.Option{clientlimit.WithAttempts(1000), clientlimit.WithMaxWait(10 * time.Second)}
	for when, c := range map[string]struct {
		answer      func(int, *http.Request) *http.Response
		options     []clientlimit.Option
		calls       int // 0: any number
		least, most time.Duration
		leaves      time.Duration // then its caller gives up
	}{
		"after 5 by default":       {refuses, nil, 5, 12 * time.Second, 14 * time.Second, time.Hour},
		"after WithAttempts":       {refuses, []clientlimit.Option{clientlimit.WithAttempts(1)}, 1, 0, 0, time.Hour},
		"after all pauses":         {refuses, for10s, 0, 3 * time.Second, 10 * time.Second, time.Hour},
		"after broken ones":        {broken, for10s, 0, 3 * time.Second, 10 * time.Second, time.Hour},
		"when its caller gives up": {broken, for10s, 0, time.Second, time.Second, time.Second},
	} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newService(c.answer)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(c.leaves, cancel)
				status, err := get(ctx, t, &http.Client{Transport: clientlimit.New(s, c.options...)}, "a")
				if took, n := time.Since(s.start), len(s.at()); took < c.least || took > c.most || c.calls > 0 && n != c.calls {
					t.Errorf("it took %v and %d calls: want %v to %v, and %d", took, n, c.least, c.most, c.calls)
				}
				if gone := c.leaves < time.Hour; status != 429 && err == nil || errors.Is(err, context.Canceled) != gone {
					t.Errorf("%d, %v: want the refusal or the error itself, and of a caller who is gone that of its context", status, err)
				}
				for i, body := range s.bodies {
					if body.closed == 0 {
						t.Errorf("the body of answer %d was not closed", i)
					}
				}
			})
		})
	}
}

// If refusals don't say for how long, pauses double, until a request is served.
func TestPausesWithoutATimeDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(but(say(429), map[int]reply{4: say(200)}))
		client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithAttempts(4))}
		for range 2 {
			_, _ = get(t.Context(), t, client, "a")
		}
		at := s.at()
		for i, most := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second} {
			if d := at[i] - at[i-1]; d < most/2 || d > most+most/10 {
				t.Errorf("pause %d lasts %v, want half of %v and more", i, d, most)
			}
		}
		if d := at[5] - at[4]; d > 3*time.Second {
			t.Errorf("the pause after one that was served lasts %v, want a second at most, and a second at the rate of one a second", d)
		}
	})
}

// A service with several limits names the one that counts a request, as GitHub
// does. A refusal for one of them holds back the requests whose path begins
// alike, also those that waited before it was known, and no others.
func TestALimitWithANamePausesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		at := map[string][]time.Duration{}
		start := time.Now()
		client := &http.Client{Transport: clientlimit.New(roundTrip(func(r *http.Request) (*http.Response, error) {
			name := strings.Split(r.URL.Path, "/")[1]
			mu.Lock()
			at[name] = append(at[name], time.Since(start))
			mu.Unlock()
			if time.Sleep(100 * time.Millisecond); name == "search" && time.Since(start) < 20*time.Second {
				return respond(403, "X-RateLimit-Resource", name, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"), nil
			}
			return respond(200, "X-RateLimit-Resource", name), nil
		}))}
		var all sync.WaitGroup
		send := func(path string) {
			all.Go(func() {
				if status, err := do(client, must(http.NewRequest(http.MethodGet, "http://a"+path, nil))); status != 200 || err != nil {
					t.Error(path, status, err)
				}
			})
		}
		for range 5 {
			send("/search/issues")
		}
		time.Sleep(5 * time.Second)
		for i := range 5 {
			send(fmt.Sprint("/repos/", i))
			send(fmt.Sprint("/search/", i))
		}
		all.Wait()
		for i, d := range at["search"] {
			if i > 0 && d < 30*time.Second {
				t.Errorf("search was called at %v: want one that is refused, and the others 30 s later", at["search"])
				break
			}
		}
		if last := at["repos"][4]; len(at["search"]) != 11 || last > 6*time.Second {
			t.Errorf("repos was called at %v: want no pause", at["repos"])
		}
	})
}

// A refusal that concerns all limits holds back the requests of each, also of
// paths for which no limit is known yet; not those of other keys.
func TestARefusalCanConcernAllLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(n int, r *http.Request) *http.Response {
			if n == 3 {
				return saying(403, `{"message": "You have exceeded a secondary rate limit."}`,
					"X-RateLimit-Resource", "search", "X-RateLimit-Remaining", "20")()
			}
			return respond(200, "X-RateLimit-Resource", strings.Trim(r.URL.Path, "/"))
		})
		client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithMaxWait(time.Hour), clientlimit.WithAttempts(1))}
		for i, url := range []string{"http://a/core", "http://a/search", "http://a/search", "http://b/core", "http://a/core", "http://a/graphql"} {
			_, _ = do(client, must(http.NewRequest(http.MethodGet, url, nil)))
			if took, waits := time.Since(s.start), i >= 4; waits != (took >= time.Minute) {
				t.Errorf("request %d, of %s, was answered after %v: want a minute's pause of all limits of a after the third", i+1, url, took)
			}
		}
	})
}

// A limiter counts requests once, also those that turn out to be of another of
// the service's limits while they wait.
func TestALimiterPacesLimitsWithNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(int, *http.Request) *http.Response {
			time.Sleep(100 * time.Millisecond)
			return respond(200, "X-RateLimit-Bucket", "search")
		})
		client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithLimiter(own(core.PerSecond(1)), clientlimit.ByHost()))}
		atOnce(5, func() { _, _ = get(t.Context(), t, client, "a") })
		for i, d := range s.at() {
			if d != time.Duration(i)*time.Second {
				t.Errorf("calls at %v: want one a second", s.at())
			}
		}
	})
}

// Paths for which no limit is named don't wait for those that have one.
func TestPathsWithoutANamedLimitDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(func(_ int, r *http.Request) *http.Response {
			if r.URL.Path == "/status" {
				return respond(200)
			}
			return respond(200, "X-RateLimit-Bucket", r.URL.Path)
		})
		client := &http.Client{Transport: clientlimit.New(s)}
		for _, path := range []string{"/search", "/status", "/search", "/repos", "/status"} {
			_, _ = do(client, must(http.NewRequest(http.MethodGet, "http://a"+path, nil)))
		}
		if took := time.Since(s.start); took > 0 {
			t.Errorf("5 requests took %v, want no time", took)
		}
	})
}

// A request that is cancelled while it waits ends at once, closes its body, and
// leaves its place and its turn to the next one.
func TestACancelledRequestStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := own(core.Per(1, 10*time.Second))
		client := &http.Client{Transport: clientlimit.New(newService(served), clientlimit.WithLimiter(limiter, clientlimit.ByHost()), clientlimit.WithQueue(1))}
		_, _ = get(t.Context(), t, client, "a")
		began, body := time.Now(), watched("x")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := client.Do(must(http.NewRequestWithContext(ctx, http.MethodPost, "http://a/", body)))
			if !errors.Is(err, context.Canceled) || time.Since(began) != time.Second || body.closed != 1 {
				t.Errorf("%v after %v, body closed %d times: want context.Canceled after 1s, once", err, time.Since(began), body.closed)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := get(t.Context(), t, client, "a"); err != nil || time.Since(began) != 10*time.Second {
				t.Errorf("%v after %v: want the token that the other one waited for, after 10s", err, time.Since(began))
			}
		})
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		all.Go(func() {
			if _, err := get(t.Context(), t, client, "a"); err != nil {
				t.Errorf("%v: want the place in the queue that is free again", err)
			}
		})
		all.Wait()
	})
}

// Requests go in the order in which they came. More than the queue has places
// fail at once.
func TestTheQueueIsInOrderAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		next := roundTrip(func(r *http.Request) (*http.Response, error) {
			order = append(order, r.URL.Path)
			return respond(200), nil
		})
		client := &http.Client{Transport: clientlimit.New(next, clientlimit.WithLimiter(own(core.PerSecond(1)), clientlimit.ByHost()), clientlimit.WithQueue(20))}
		full := 0
		var all sync.WaitGroup
		for i := range 25 {
			all.Go(func() {
				_, err := do(client, must(http.NewRequest(http.MethodGet, fmt.Sprintf("http://a/%c", 'a'+i), nil)))
				var e *clientlimit.Error
				if errors.Is(err, clientlimit.ErrQueueFull) && errors.As(err, &e) && e.Key == "host:a" {
					full++
				} else if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if full != 3 || len(order) != 22 || !slices.IsSorted(order) {
			t.Errorf("%d found the queue full, %v: want 3 beyond the one that goes, the one whose turn it is and 20 others, in order", full, order)
		}
	})
}

// What a lying server says makes no request wait for longer than its caller
// wants, and the client asks again in time.
func TestALyingServerIsBounded(t *testing.T) {
	for lie, fields := range map[string][]string{
		"a pause of centuries":          {"Retry-After", "99999999999"},
		"a pause beyond numbers":        {"Retry-After", "1e308"},
		"no number":                     {"Retry-After", "NaN", "Retry-After-Ms", "Inf"},
		"a pause below zero":            {"Retry-After", "-1"},
		"a date of the past":            {"Retry-After", "Mon, 01 Jan 1990 00:00:00 GMT"},
		"a Date of the past":            {"Date", "Mon, 01 Jan 1990 00:00:00 GMT", "Retry-After", "Mon, 01 Jan 2300 00:00:00 GMT"},
		"nothing left for ever":         {"RateLimit", `"a";r=0;t=999999999999999`},
		"a fraction of a nanosecond":    {"RateLimit", `"a";r=999999;t=0.0000000001`, "Retry-After", "0.0000000001"},
		"contradictions":                {"RateLimit", `"a";r=0;t=9, "a";r=999;t=1`, "X-RateLimit-Remaining", "-5", "Retry-After", "0"},
		"a window that ends in decades": {"X-RateLimit-Limit", "1", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "99999999999"},
		"one left for decades":          {"X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "99999999999"},
	} {
		for _, status := range []int{200, 429, 403, 503} {
			synctest.Test(t, func(t *testing.T) {
				lies := say(status, fields...)
				s := newService(but(say(200), map[int]reply{1: lies, 2: lies, 3: lies}))
				client := &http.Client{Transport: clientlimit.New(s, clientlimit.WithMaxWait(10*time.Second))}
				for range 500 { // for four hours
					began := time.Now()
					if _, err := get(t.Context(), t, client, "a"); err != nil && !errors.Is(err, core.ErrDeadline) {
						t.Errorf("%s with %d: %v", lie, status, err)
					}
					if waited := time.Since(began); waited > 10*time.Second {
						t.Errorf("%s with %d: a request waited for %v, want 10s at most", lie, status, waited)
					}
					time.Sleep(30 * time.Second)
				}
				if len(s.at()) < 4 {
					t.Errorf("%s with %d: %d calls in hours: want the client to ask again", lie, status, len(s.at()))
				}
			})
		}
	}
}

// Keys that are not used are forgotten, so that their number does not matter.
func TestIdleKeysAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(refusing(24*time.Hour, "3600"))
		client := &http.Client{Transport: clientlimit.New(s)}
		for i := range 10_001 {
			if status, err := get(t.Context(), t, client, "host"+strconv.Itoa(i)); err != nil || status != 429 {
				t.Fatal(status, err)
			}
		}
		if _, err := get(t.Context(), t, client, "host10000"); !errors.Is(err, core.ErrDeadline) {
			t.Errorf("%v: want the last key to pause", err)
		}
		if _, err := get(t.Context(), t, client, "host0"); err != nil {
			t.Errorf("%v: want the first of 10,001 keys forgotten", err)
		}
	})
}

func TestNewReportsAllMistakes(t *testing.T) {
	said := func(f func()) (text string) {
		defer func() { text = fmt.Sprint(recover()) }()
		f()
		return ""
	}
	text := said(func() {
		clientlimit.New(nil, clientlimit.WithLimiter(nil, nil), clientlimit.WithKey(nil), clientlimit.WithQueue(-1), clientlimit.WithAttempts(0),
			clientlimit.WithMaxWait(0), nil)
	}) + said(func() { clientlimit.ByHeader("a b") })
	for _, option := range []string{"WithLimiter limiter", "WithLimiter key", "WithKey", "WithQueue", "WithAttempts", "WithMaxWait", "ByHeader"} {
		if !strings.Contains(text, "clientlimit."+option+":") {
			t.Errorf("no word of %s: %s", option, text)
		}
	}
}

func TestKeys(t *testing.T) {
	for url, want := range map[string]string{
		"https://API.example.com./v1": "host:api.example.com", "http://a:80/": "host:a", "https://a:80/": "host:a%3A80", "http://[::1]:8080/": core.JoinKey("host", "[::1]:8080"),
	} {
		if key, err := clientlimit.ByHost()(must(http.NewRequest(http.MethodGet, url, nil))); key != want || err != nil {
			t.Errorf("%s: %s, %v: want %s", url, key, err, want)
		}
	}
	byToken := clientlimit.ByHeader("authorization")
	keys := map[string]bool{}
	for _, secret := range []string{"Bearer ann", "Bearer bob"} {
		req := must(http.NewRequest(http.MethodGet, "http://a/", nil))
		if _, err := byToken(req); !errors.Is(err, core.ErrNoKey) {
			t.Errorf("without the field: %v, want ErrNoKey", err)
		}
		req.Header.Set("Authorization", secret)
		key := must(byToken(req))
		if keys[key] = true; strings.Contains(key, "ann") || !strings.HasPrefix(key, "host:a:authorization:") {
			t.Errorf("%s: want the host, the field and a hash of its value", key)
		}
	}
	if len(keys) != 2 {
		t.Errorf("%v: want a key for each value", keys)
	}
}

// closer is a transport that counts calls of CloseIdleConnections.
type closer struct {
	*service
	closed int
}

func (c *closer) CloseIdleConnections() { c.closed++ }

func TestCloseIdleConnectionsIsPassedOn(t *testing.T) {
	c := &closer{service: newService(served)}
	(&http.Client{Transport: clientlimit.New(c)}).CloseIdleConnections()
	if clientlimit.New(newService(served)).CloseIdleConnections(); c.closed != 1 {
		t.Errorf("called %d times, want once", c.closed)
	}
}

// Transports that tests fake may leave out what those of net/http have.
func TestAnswersWithoutABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, answer := range []*http.Response{nil, {StatusCode: 200}, {StatusCode: 429}} {
			settled := 0
			client := &http.Client{Transport: clientlimit.New(roundTrip(func(*http.Request) (*http.Response, error) { return answer, nil }),
				clientlimit.WithAttempts(2), clientlimit.WithSettle(func(*http.Response, []byte) core.Units { settled++; return nil }))}
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

// A body that can't be read again is the error of its request, and leaves its
// slot.
func TestAGetBodyThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := own(core.InFlight(1))
		transport := clientlimit.New(newService(refusing(time.Second, "1")), clientlimit.WithLimiter(limiter, clientlimit.ByHost()))
		req, lost := must(http.NewRequest(http.MethodPost, "http://a/", strings.NewReader("order 7"))), errors.New("the file is gone")
		req.GetBody = func() (io.ReadCloser, error) { return nil, lost }
		if _, err := do(&http.Client{Transport: transport}, req); !errors.Is(err, lost) {
			t.Errorf("%v: want the error of GetBody", err)
		}
		if res := must(limiter.Allow(t.Context(), "host:a")); !res.Allowed {
			t.Error("a slot is left behind")
		}
	})
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
