package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

// noon is when the tests are, in the middle of a month.
var noon = time.Date(2026, time.March, 15, 12, 0, 0, 0, time.UTC)

// forEachStore runs a test on each store. Their clocks stand still, so that
// nothing refills.
func forEachStore(t *testing.T, test func(t *testing.T, store core.Store)) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		test(t, newStore(core.WithClock(func() time.Time { return noon })))
	})
}

func none() core.LimiterOption { return core.WithObserver(nil) }

func policies(t *testing.T) map[string]core.Policy {
	t.Helper()
	policies, err := policyfile.Load(bytes.NewReader(policiesYAML))
	if err != nil {
		t.Fatal(err)
	}
	return policies
}

// upstream serves a provider.
func upstream(t *testing.T, provider http.Handler) model {
	t.Helper()
	server := httptest.NewServer(provider)
	t.Cleanup(server.Close)
	return model{url: server.URL, within: time.Minute, atMost: time.Hour}
}

// gateway is the app in front of a provider, and its limiters.
type gateway struct {
	keys, organisations *core.Limiter
	url                 string
	over                chan struct{} // a call is over, and settled
}

func start(t *testing.T, store core.Store, provider http.Handler) *gateway {
	t.Helper()
	policies := policies(t)
	a := &gateway{
		keys:          core.Must(core.NewLimiter(store, policies["key"])),
		organisations: core.Must(core.NewLimiter(store, policies["organisation"])),
		over:          make(chan struct{}, 100),
	}
	handler := app(store, none(), policies, upstream(t, provider))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { a.over <- struct{}{} }()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL + "/v1/generate"
	return a
}

// ask begins a call, and returns when its header fields are there.
func (a *gateway) ask(ctx context.Context, t *testing.T, secret, prompt string, most int) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"prompt": %q, "max_tokens": %d}`, prompt, most)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// left is what the buckets of a key and of its organisation hold, by the names
// of the limits.
func (a *gateway) left(t *testing.T, key, organisation string) map[string]int64 {
	t.Helper()
	left := make(map[string]int64)
	for limiter, of := range map[*core.Limiter]string{a.keys: key, a.organisations: organisation} {
		res, err := limiter.Peek(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range res.Limits() {
			left[l.Limit.Name] = l.Remaining
		}
	}
	return left
}

func (a *gateway) check(t *testing.T, what, key, organisation string, want map[string]int64) {
	t.Helper()
	if got := a.left(t, key, organisation); !maps.Equal(got, want) {
		t.Errorf("%s: %v are left, want %v", what, got, want)
	}
}

// waiting is a provider that sends tokens, and then generates nothing more
// until it is released. It sends to gone when a client hangs up.
func waiting(tokens int, release <-chan struct{}, gone chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that its client hangs up
		used := usage{Prompt: 2, Completion: int64(tokens)}
		send(w, event{Usage: &usage{Prompt: 2}})
		for range tokens {
			send(w, event{Text: "la "})
		}
		select {
		case <-r.Context().Done():
			if gone != nil {
				gone <- struct{}{}
			}
		case <-release:
			send(w, event{Usage: &used, Done: true})
		}
	})
}

// The gateway charges an estimate when a call begins, and what the stream
// reports when it is over.
func TestStreamIsChargedAsItReports(t *testing.T) {
	forEachStore(t, func(t *testing.T, store core.Store) {
		release := make(chan struct{})
		a := start(t, store, waiting(7, release, nil))
		res := a.ask(t.Context(), t, "ann-secret", "Tell me a story", 500) // 15 bytes
		a.check(t, "while it streams", "ann", "acme", map[string]int64{
			"key-requests": 9, "key-tokens": 8000 - 515, "key-budget": 200_000 - 515, "organisation-tokens": 11_000 - 515, "organisation-budget": 1_000_000 - 515})
		close(release)
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "la "); n != 7 {
			t.Errorf("%d tokens came through, want 7: %s", n, text)
		}
		if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type %q, want text/event-stream", got)
		}
		<-a.over
		a.check(t, "afterwards", "ann", "acme", map[string]int64{
			"key-requests": 9, "key-tokens": 8000 - 9, "key-budget": 200_000 - 9, "organisation-tokens": 11_000 - 9, "organisation-budget": 1_000_000 - 9})
	})
}

// The story of the fake provider reaches the client word by word, and its usage
// is charged.
func TestStoryIsCharged(t *testing.T) {
	forEachStore(t, func(t *testing.T, store core.Store) {
		a := start(t, store, provider(0))
		res := a.ask(t.Context(), t, "cid-secret", "Tell me a story", 5)
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `{"text":"Once "}`) || !strings.Contains(string(text), `"completion_tokens":5`) {
			t.Errorf("the story is %s", text)
		}
		<-a.over
		a.check(t, "afterwards", "cid", "initech", map[string]int64{
			"key-requests": 9, "key-tokens": 8000 - 9, "key-budget": 200_000 - 9, "organisation-tokens": 11_000 - 9, "organisation-budget": 1_000_000 - 9})
	})
}

// A client that hangs up gets nothing back, also if it does so before the first
// word, and the provider stops.
func TestWhoHangsUpGetsNothingBack(t *testing.T) {
	forEachStore(t, func(t *testing.T, store core.Store) {
		gone := make(chan struct{}, 10)
		a := start(t, store, waiting(1, nil, gone))
		for range 3 {
			ctx, hangUp := context.WithCancel(t.Context())
			a.ask(ctx, t, "ann-secret", "Tell me a story", 500)
			hangUp()
			<-gone
			<-a.over
		}
		a.check(t, "afterwards", "ann", "acme", map[string]int64{
			"key-requests": 7, "key-tokens": 8000 - 3*515, "key-budget": 200_000 - 3*515, "organisation-tokens": 11_000 - 3*515, "organisation-budget": 1_000_000 - 3*515})
	})
}

// What the provider refuses took no tokens. Its request counts, or bad ones
// would be free.
func TestARefusalOfTheProviderTakesNoTokens(t *testing.T) {
	forEachStore(t, func(t *testing.T, store core.Store) {
		a := start(t, store, http.NotFoundHandler())
		if res := a.ask(t.Context(), t, "ann-secret", "Tell me a story", 500); res.StatusCode != http.StatusBadGateway {
			t.Errorf("status %d, want 502", res.StatusCode)
		}
		<-a.over
		a.check(t, "afterwards", "ann", "acme", map[string]int64{
			"key-requests": 9, "key-tokens": 8000, "key-budget": 200_000, "organisation-tokens": 11_000, "organisation-budget": 1_000_000})
	})
}

// A provider that says more than a call can take makes no debt.
func TestNoCallMakesADebt(t *testing.T) {
	a := start(t, core.NewMemoryStore(core.WithClock(func() time.Time { return noon })), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(w, event{Usage: &usage{Completion: 1 << 40}, Done: true})
	}))
	if _, err := io.ReadAll(a.ask(t.Context(), t, "ann-secret", "Tell me a story", 500).Body); err != nil {
		t.Fatal(err)
	}
	<-a.over
	a.check(t, "afterwards", "ann", "acme", map[string]int64{
		"key-requests": 9, "key-tokens": 8000 - 515, "key-budget": 200_000 - 515, "organisation-tokens": 11_000 - 515, "organisation-budget": 1_000_000 - 515})
}

// One key can't spend its organisation's month.
func TestAKeyHasAPartOfItsOrganisationsBudget(t *testing.T) {
	a := start(t, core.NewMemoryStore(core.WithClock(func() time.Time { return noon })), provider(0))
	if _, err := a.keys.AllowUnits(t.Context(), "ann", core.Units{"tokens": 0}); err != nil {
		t.Fatal(err)
	}
	left := a.left(t, "ann", "acme")
	if left["key-budget"]*5 > left["organisation-budget"] {
		t.Errorf("a key has %d of %d", left["key-budget"], left["organisation-budget"])
	}
}

func TestMain(m *testing.M) { hostile.Main(m, main) }

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/generate", strings.NewReader(`{"prompt": "Tell me a story", "max_tokens": 5}`))
	r.Header.Set("Authorization", "Bearer "+key)
	return r
}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		var called atomic.Int64
		fake := provider(0)
		model := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			called.Add(1)
			fake.ServeHTTP(w, r)
		}))
		return hostile.App{
			Server: newServer("", app(store, none(), policies(t), model)), Request: request,
			Attacker: "ann-secret", Victim: "cid-secret", PerKey: 10, PerAddress: 40,
			Worked: func() int { return int(called.Load()) }, // each is paid to the provider
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann-secret") })
}

// A stream that nobody reads ends, and so does what the provider generates.
func TestAStreamThatNobodyReadsEnds(t *testing.T) {
	stopped := make(chan struct{})
	model := upstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			send(w, event{Text: strings.Repeat("la ", 1000)})
		}
		close(stopped)
	}))
	model.within = time.Second
	server := httptest.NewServer(app(core.NewMemoryStore(), none(), policies(t), model))
	defer server.Close()
	r := request("ann-secret")
	r.URL, _ = url.Parse(server.URL + r.URL.Path)
	r.RequestURI = ""
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-stopped
}

// Two keys together use up their organisation's tokens. Then it denies, and the
// key's own buckets pay nothing.
func TestOrganisationDeniesItsKeysTogether(t *testing.T) {
	forEachStore(t, func(t *testing.T, store core.Store) {
		release := make(chan struct{})
		a := start(t, store, waiting(1, release, nil))
		done := sync.OnceFunc(func() { close(release) })
		t.Cleanup(done)
		for i, secret := range []string{"bob-secret", "bob-secret", "bob-secret", "bob-secret", "ann-secret"} {
			if res := a.ask(t.Context(), t, secret, "hello", 2000); res.StatusCode != http.StatusOK { // 2,005 tokens each
				t.Fatalf("call %d: status %d, want 200", i, res.StatusCode)
			}
		}
		before := a.left(t, "ann", "acme")
		if before["key-tokens"] < 2005 || before["organisation-tokens"] >= 2005 {
			t.Fatalf("%v are left: ann must have the tokens, and acme not", before)
		}
		res := a.ask(t.Context(), t, "ann-secret", "hello", 2000)
		a.denied(t, res, "organisation-tokens")
		a.check(t, "after the denial", "ann", "acme", before)
		if other := a.ask(t.Context(), t, "cid-secret", "hello", 2000); other.StatusCode != http.StatusOK {
			t.Errorf("another organisation: status %d, want 200", other.StatusCode)
		}
		done()
		for range 7 {
			<-a.over
		}
		a.check(t, "when all are settled", "ann", "acme", map[string]int64{
			"key-requests": 9, "key-tokens": 8000 - 3, "key-budget": 200_000 - 3, "organisation-tokens": 11_000 - 15, "organisation-budget": 1_000_000 - 15})
	})
}

// denied checks that a response is a 429 that names the limits that are used
// up.
func (a *gateway) denied(t *testing.T, res *http.Response, limits ...string) {
	t.Helper()
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q, want 429 and a number", res.StatusCode, res.Header.Get("Retry-After"))
	}
	if got := res.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q, want application/problem+json", got)
	}
	var problem core.ProblemDetails
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(problem.ViolatedPolicies, limits) {
		t.Errorf("violated-policies are %q, want %q", problem.ViolatedPolicies, limits)
	}
}

// use takes tokens of a key, more than there are if need be.
func use(t *testing.T, limiter *core.Limiter, key string, units core.Units) {
	t.Helper()
	res, err := limiter.AllowUnits(t.Context(), key, core.Units{core.Requests: 0, "tokens": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Settle(t.Context(), units); err != nil {
		t.Fatal(err)
	}
}

func TestDenialNamesWhatIsUsedUp(t *testing.T) {
	forEachStore(t, func(t *testing.T, store core.Store) {
		a := start(t, store, provider(0))
		use(t, a.keys, "ann", core.Units{"tokens": 7990})
		a.denied(t, a.ask(t.Context(), t, "ann-secret", "hello", 20), "key-tokens")
		use(t, a.keys, "ann", core.Units{core.Requests: 10})
		a.denied(t, a.ask(t.Context(), t, "ann-secret", "hello", 20), "key-requests", "key-tokens")
		use(t, a.organisations, "acme", core.Units{"tokens": 1_000_000})
		a.denied(t, a.ask(t.Context(), t, "bob-secret", "hello", 20), "organisation-tokens", "organisation-budget")
	})
}

// The budget comes back when the month ends in Berlin, an hour before it ends
// in UTC.
func TestBudgetIsOfTheMonth(t *testing.T) {
	var passed atomic.Int64 // seconds
	begin := time.Date(2026, time.January, 31, 22, 59, 0, 0, time.UTC)
	clock := func() time.Time { return begin.Add(time.Duration(passed.Load()) * time.Second) }
	a := start(t, core.NewMemoryStore(core.WithClock(clock)), provider(0))
	use(t, a.organisations, "initech", core.Units{"tokens": 1_000_000})
	passed.Store(59)
	res := a.ask(t.Context(), t, "cid-secret", "hello", 20)
	if got := res.Header.Values("RateLimit"); len(got) != 2 || !strings.Contains(strings.Join(got, ", "), `"organisation-budget";r=0;t=1`) {
		t.Errorf("RateLimit %q, want a member for the budget with r=0 and t=1", got)
	}
	passed.Store(60)
	if left := a.left(t, "cid", "initech")["organisation-budget"]; left != 1_000_000 {
		t.Errorf("in February %d tokens are left, want all", left)
	}
}

// bob has an exception: more requests and tokens than the policy says.
func TestOverrideHoldsForItsKey(t *testing.T) {
	a := start(t, core.NewMemoryStore(), provider(0))
	if left := a.left(t, "bob", "acme"); left["key-requests"] != 60 || left["key-tokens"] != 10_000 {
		t.Errorf("bob has %v, want 60 requests and 10000 tokens", left)
	}
}

func TestBadCallsAreRefusedAndFree(t *testing.T) {
	a := start(t, core.NewMemoryStore(), provider(0))
	for _, c := range []struct {
		secret, prompt string
		most, want     int
	}{
		{"eve-secret", "hello", 20, http.StatusUnauthorized},
		{"", "hello", 20, http.StatusUnauthorized},
		{"ann-secret", "hello", 0, http.StatusBadRequest},
		{"ann-secret", "hello", maxTokens + 1, http.StatusBadRequest},
		{"ann-secret", strings.Repeat("hello ", maxBody/6), 20, http.StatusRequestEntityTooLarge},
	} {
		if res := a.ask(t.Context(), t, c.secret, c.prompt, c.most); res.StatusCode != c.want {
			t.Errorf("key %q, %d bytes, max_tokens %d: status %d, want %d", c.secret, len(c.prompt), c.most, res.StatusCode, c.want)
		}
	}
	a.check(t, "afterwards", "ann", "acme", map[string]int64{
		"key-requests": 10, "key-tokens": 8000, "key-budget": 200_000, "organisation-tokens": 11_000, "organisation-budget": 1_000_000})
}

// The largest call must be one that can pass.
func TestLargestCallFits(t *testing.T) {
	a := start(t, core.NewMemoryStore(), provider(0))
	prompt := strings.Repeat("x", maxBody-100)
	if res := a.ask(t.Context(), t, "ann-secret", prompt, maxTokens); res.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", res.StatusCode)
	}
}
