package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

// noon is when the tests are, in the middle of a month.
var noon = time.Date(2026, time.March, 15, 12, 0, 0, 0, time.UTC)

// newStore returns a store whose clock stands still, so that nothing refills.
func newStore() core.Store {
	return core.NewMemoryStore(core.WithClock(func() time.Time { return noon }))
}

func none() core.LimiterOption { return core.WithObserver(nil) }

func policies(t *testing.T) map[string]core.Policy {
	t.Helper()
	policies, err := policyfile.Load(bytes.NewReader(policiesYAML))
	require.NoError(t, err)
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
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
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
		require.NoError(t, err)
		for _, l := range res.Limits() {
			left[l.Limit.Name] = l.Remaining
		}
	}
	return left
}

// after is what a key and its organisation have after calls that took so many
// tokens.
func after(calls, tokens int64) map[string]int64 {
	return map[string]int64{
		"key-requests": 10 - calls, "key-tokens": 8000 - tokens, "key-budget": 200_000 - tokens,
		"organisation-tokens": 11_000 - tokens, "organisation-budget": 1_000_000 - tokens,
	}
}

func (a *gateway) check(t *testing.T, what, key, organisation string, want map[string]int64) {
	t.Helper()
	assert.Equal(t, want, a.left(t, key, organisation), what)
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
	release := make(chan struct{})
	a := start(t, newStore(), waiting(7, release, nil))
	res := a.ask(t.Context(), t, "ann-secret", "Tell me a story", 500) // 15 bytes
	a.check(t, "while it streams", "ann", "acme", after(1, 515))
	close(release)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, 7, strings.Count(string(text), "la "), "tokens come through: %s", text)
	assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	<-a.over
	a.check(t, "afterwards", "ann", "acme", after(1, 9))
}

// The story of the fake provider reaches the client word by word, and its usage
// is charged.
func TestStoryIsCharged(t *testing.T) {
	a := start(t, newStore(), provider(0))
	res := a.ask(t.Context(), t, "cid-secret", "Tell me a story", 5)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Contains(t, string(text), `{"text":"Once "}`)
	assert.Contains(t, string(text), `"completion_tokens":5`)
	<-a.over
	a.check(t, "afterwards", "cid", "initech", after(1, 9))
}

// A client that hangs up gets nothing back, also if it does so before the first
// word, and the provider stops.
func TestWhoHangsUpGetsNothingBack(t *testing.T) {
	gone := make(chan struct{}, 10)
	a := start(t, newStore(), waiting(1, nil, gone))
	for range 3 {
		ctx, hangUp := context.WithCancel(t.Context())
		a.ask(ctx, t, "ann-secret", "Tell me a story", 500)
		hangUp()
		<-gone
		<-a.over
	}
	a.check(t, "afterwards", "ann", "acme", after(3, 3*515))
}

// What the provider refuses took no tokens. Its request counts, or bad ones
// would be free.
func TestARefusalOfTheProviderTakesNoTokens(t *testing.T) {
	a := start(t, newStore(), http.NotFoundHandler())
	assert.Equal(t, http.StatusBadGateway, a.ask(t.Context(), t, "ann-secret", "Tell me a story", 500).StatusCode)
	<-a.over
	a.check(t, "afterwards", "ann", "acme", after(1, 0))
}

// A provider that says more than a call can take makes no debt.
func TestNoCallMakesADebt(t *testing.T) {
	a := start(t, newStore(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(w, event{Usage: &usage{Completion: 1 << 40}, Done: true})
	}))
	_, err := io.ReadAll(a.ask(t.Context(), t, "ann-secret", "Tell me a story", 500).Body)
	require.NoError(t, err)
	<-a.over
	a.check(t, "afterwards", "ann", "acme", after(1, 515))
}

// One key can't spend its organisation's month.
func TestAKeyHasAPartOfItsOrganisationsBudget(t *testing.T) {
	a := start(t, newStore(), provider(0))
	_, err := a.keys.AllowUnits(t.Context(), "ann", core.Units{"tokens": 0})
	require.NoError(t, err)
	left := a.left(t, "ann", "acme")
	assert.LessOrEqual(t, left["key-budget"]*5, left["organisation-budget"])
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
	require.NoError(t, err)
	defer res.Body.Close()
	<-stopped
}

// Two keys together use up their organisation's tokens. Then it denies, and the
// key's own buckets pay nothing.
func TestOrganisationDeniesItsKeysTogether(t *testing.T) {
	release := make(chan struct{})
	a := start(t, newStore(), waiting(1, release, nil))
	done := sync.OnceFunc(func() { close(release) })
	t.Cleanup(done)
	for i, secret := range []string{"bob-secret", "bob-secret", "bob-secret", "bob-secret", "ann-secret"} {
		require.Equal(t, http.StatusOK, a.ask(t.Context(), t, secret, "hello", 2000).StatusCode, "call %d", i) // 2,005 tokens each
	}
	before := a.left(t, "ann", "acme")
	require.True(t, before["key-tokens"] >= 2005 && before["organisation-tokens"] < 2005, "the premise: ann has the tokens, and acme not")
	res := a.ask(t.Context(), t, "ann-secret", "hello", 2000)
	a.denied(t, res, "organisation-tokens")
	a.check(t, "after the denial", "ann", "acme", before)
	assert.Equal(t, http.StatusOK, a.ask(t.Context(), t, "cid-secret", "hello", 2000).StatusCode, "another organisation")
	done()
	for range 7 {
		<-a.over
	}
	want := after(1, 3)
	want["organisation-tokens"] -= 12 // of bob
	want["organisation-budget"] -= 12
	a.check(t, "when all are settled", "ann", "acme", want)
}

// denied checks that a response is a 429 that names the limits that are used
// up.
func (a *gateway) denied(t *testing.T, res *http.Response, limits ...string) {
	t.Helper()
	assert.Equal(t, http.StatusTooManyRequests, res.StatusCode)
	assert.NotEmpty(t, res.Header.Get("Retry-After"))
	assert.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	var problem core.ProblemDetails
	require.NoError(t, json.NewDecoder(res.Body).Decode(&problem))
	assert.Equal(t, limits, problem.ViolatedPolicies)
}

// use takes tokens of a key, more than there are if need be.
func use(t *testing.T, limiter *core.Limiter, key string, units core.Units) {
	t.Helper()
	res, err := limiter.AllowUnits(t.Context(), key, core.Units{core.Requests: 0, "tokens": 1})
	require.NoError(t, err)
	require.NoError(t, res.Settle(t.Context(), units))
}

func TestDenialNamesWhatIsUsedUp(t *testing.T) {
	a := start(t, newStore(), provider(0))
	use(t, a.keys, "ann", core.Units{"tokens": 7990})
	a.denied(t, a.ask(t.Context(), t, "ann-secret", "hello", 20), "key-tokens")
	use(t, a.keys, "ann", core.Units{core.Requests: 10})
	a.denied(t, a.ask(t.Context(), t, "ann-secret", "hello", 20), "key-requests", "key-tokens")
	use(t, a.organisations, "acme", core.Units{"tokens": 1_000_000})
	a.denied(t, a.ask(t.Context(), t, "bob-secret", "hello", 20), "organisation-tokens", "organisation-budget")
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
	assert.Contains(t, strings.Join(res.Header.Values("RateLimit"), ", "), `"organisation-budget";r=0;t=1`)
	passed.Store(60)
	assert.EqualValues(t, 1_000_000, a.left(t, "cid", "initech")["organisation-budget"], "in February all tokens are left")
}

// bob has an exception: more requests and tokens than the policy says.
func TestOverrideHoldsForItsKey(t *testing.T) {
	a := start(t, core.NewMemoryStore(), provider(0))
	left := a.left(t, "bob", "acme")
	assert.Equal(t, []int64{60, 10_000}, []int64{left["key-requests"], left["key-tokens"]})
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
		res := a.ask(t.Context(), t, c.secret, c.prompt, c.most)
		assert.Equal(t, c.want, res.StatusCode, "key %q, %d bytes, max_tokens %d", c.secret, len(c.prompt), c.most)
	}
	a.check(t, "afterwards", "ann", "acme", after(0, 0))
}

// The largest call must be one that can pass.
func TestLargestCallFits(t *testing.T) {
	a := start(t, core.NewMemoryStore(), provider(0))
	prompt := strings.Repeat("x", maxBody-100)
	assert.Equal(t, http.StatusOK, a.ask(t.Context(), t, "ann-secret", prompt, maxTokens).StatusCode)
}
