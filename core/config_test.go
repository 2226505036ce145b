package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// mistakes returns every core.ConfigError joined in err, as "field: value". One
// without a code is marked.
func mistakes(err error) []string {
	var list []string
	switch e := err.(type) {
	case nil:
	case *core.ConfigError:
		text := fmt.Sprintf("%s: %v", e.Field, e.Value)
		if e.Code() == "" {
			text += " has no code"
		}
		list = append(list, text)
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			list = append(list, mistakes(each)...)
		}
	case interface{ Unwrap() error }:
		list = append(list, mistakes(e.Unwrap())...)
	}
	return list
}

// reports checks that err joins a ConfigError for each of want, and that its
// text shows each field.
func reports(t *testing.T, err error, want ...string) {
	t.Helper()
	assert.ElementsMatch(t, want, mistakes(err), "all mistakes must be reported, each as a ConfigError")
	require.ErrorAs(t, err, new(*core.ConfigError))
	for _, w := range want {
		field, _, _ := strings.Cut(w, ": ")
		assert.ErrorContains(t, err, field, "the message names each field")
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := core.NewLimiter(core.NewMemoryStore(core.WithMaxKeys(0), core.WithClock(nil)), core.Policy{
		Name:       "naïve",
		OnFailure:  9,
		LocalShare: 1.5,
		Headers:    99,
		Limits: []core.Limit{
			{Name: "tab\t", Capacity: 0, RefillRate: -1, RefillInterval: 0, Mode: 7},
			{Name: "b", Capacity: -5, RefillRate: math.NaN(), RefillInterval: -time.Second},
			{Name: "b", Capacity: 1e15, RefillRate: math.Inf(1), RefillInterval: math.MaxInt64},
			{Name: "é", Capacity: 1, RefillRate: 0, RefillInterval: time.Second},
			{Name: strings.Repeat("n", 129), Capacity: 1, RefillRate: 1, RefillInterval: time.Second},
		},
	})
	reports(t, err, "WithMaxKeys: 0", "WithClock: <nil>",
		"Policy.Name: naïve", "Policy.OnFailure: FailureMode(9)", "Policy.LocalShare: 1.5", "Policy.Headers: HeadersLegacy|HeadersDraft8|HeaderStyle(96)",
		"Policy.Limits[0].Name: tab\t", "Policy.Limits[0].Capacity: 0", "Policy.Limits[0].RefillRate: -1", "Policy.Limits[0].RefillInterval: 0s", "Policy.Limits[0].Mode: Mode(7)",
		"Policy.Limits[1].Capacity: -5", "Policy.Limits[1].RefillRate: NaN", "Policy.Limits[1].RefillInterval: -1s",
		"Policy.Limits[2].Name: b", "Policy.Limits[2].Capacity: 1000000000000000", "Policy.Limits[2].RefillRate: +Inf",
		"Policy.Limits[3].Name: é", "Policy.Limits[3].RefillRate: 0",
		"Policy.Limits[4].Name: "+strings.Repeat("n", 129))
}

func TestEachMistakeIsReported(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	policy := func(change func(*core.Policy)) core.Policy {
		p := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(10)}}
		change(&p)
		return p
	}
	for _, c := range []struct {
		rule   string
		change func(*core.Policy)
		want   string
	}{
		{"a policy has a name", func(p *core.Policy) { p.Name = "" }, "Policy.Name: "},
		{"a name is ASCII", func(p *core.Policy) { p.Name = "a\x7f" }, "Policy.Name: a\x7f"},
		{"a name has at most 128 bytes", func(p *core.Policy) { p.Name = strings.Repeat("x", 129) }, "Policy.Name: " + strings.Repeat("x", 129)},
		{"a policy has limits", func(p *core.Policy) { p.Limits = nil }, "Policy.Limits: 0"},
		{"a share is a number", func(p *core.Policy) { p.LocalShare = math.NaN() }, "Policy.LocalShare: NaN"},
		{"a share is not negative", func(p *core.Policy) { p.LocalShare = -0.5 }, "Policy.LocalShare: -0.5"},
		{"header styles that contradict each other", func(p *core.Policy) { p.Headers = core.HeadersDraft8 | core.HeadersDraft6 }, "Policy.Headers: HeadersDraft8|HeadersDraft6"},
		{"header styles beside none", func(p *core.Policy) { p.Headers = core.HeadersDraft8 | core.HeadersNone }, "Policy.Headers: HeadersDraft8|HeadersNone"},
		{"names differ", func(p *core.Policy) {
			p.Limits = []core.Limit{core.PerMinute(1).WithName("a"), core.PerHour(1), core.PerDay(1).WithName("a")}
		}, "Policy.Limits[2].Name: a"},
		{"no key is empty", func(p *core.Policy) { p.Blocked = []string{""} }, "Policy.Blocked[0]: "},
	} {
		err := policy(c.change).Validate()
		require.Error(t, err, c.rule)
		reports(t, err, c.want)
	}
	for _, c := range []struct {
		rule  string
		store core.Store
		want  string
	}{
		{"a store is required", nil, "NewLimiter store: <nil>"},
		{"a store is no nil pointer", (*core.MemoryStore)(nil), "NewLimiter store: <nil>"},
		{"a MemoryStore comes from NewMemoryStore", &core.MemoryStore{}, "NewLimiter store: MemoryStore{}"},
		{"WithMaxKeys is positive", core.NewMemoryStore(core.WithMaxKeys(-3)), "WithMaxKeys: -3"},
		{"Redis bounds its keys itself", redisstore.New(client, core.WithMaxKeys(3)), "WithMaxKeys: 3"},
		{"a MemoryStore has no timeout", core.NewMemoryStore(redisstore.WithTimeout(time.Second)), "redisstore option: given"},
		{"a clock is required", core.NewMemoryStore(core.WithClock(nil)), "WithClock: <nil>"},
		{"a clock is required by Redis too", redisstore.New(client, core.WithClock(nil)), "WithClock: <nil>"},
		{"WithTimeout is positive", redisstore.New(client, redisstore.WithTimeout(0)), "WithTimeout: 0s"},
		{"a client is required", redisstore.New(nil), "redisstore.New client: <nil>"},
		{"a client that was never made is a nil pointer", redisstore.New((*redis.Client)(nil)), "redisstore.New client: <nil>"},
	} {
		l, err := core.NewLimiter(c.store, policy(func(*core.Policy) {}))
		require.Nil(t, l, c.rule)
		reports(t, err, c.want)
	}
	_, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{})
	require.ErrorContains(t, err, "if it comes from a map, check the name it is looked up by")
	require.ErrorContains(t, core.Policy{Name: "api", Limits: make([]core.Limit, 65)}.Validate(), "Policy.Limits: 65 limits: at most 64 can hold together")
}

func TestWithLimitsReportsMistakes(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(10))
	_, err := l.WithLimits(core.Limit{Capacity: -1, RefillRate: math.NaN()}, core.PerDay(1).WithName("\n"))
	reports(t, err, "WithLimits[0].Capacity: -1", "WithLimits[0].RefillRate: NaN", "WithLimits[0].RefillInterval: 0s", "WithLimits[1].Name: \n")
	_, err = l.WithLimits()
	reports(t, err, "WithLimits: 0")
}

func TestMustPanicsWithTheError(t *testing.T) {
	defer func() {
		if err, _ := recover().(error); len(mistakes(err)) != 2 {
			t.Errorf("Must panics with the constructor's error, got %v", err)
		}
	}()
	core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{}))
}

// What Validate reports is what NewLimiter reports.
func TestValidate(t *testing.T) {
	for _, p := range []core.Policy{
		{},
		{Name: "api", Limits: []core.Limit{core.PerSecond(1)}},
		{Name: "naïve", Limits: []core.Limit{{}, core.PerSecond(1).WithName("a"), core.PerMinute(1).WithName("a")}, OnFailure: 9, LocalShare: 2, Headers: 99},
		{Limits: make([]core.Limit, 65)},
	} {
		_, err := core.NewLimiter(core.NewMemoryStore(), p)
		invalid := p.Validate()
		if fmt.Sprint(invalid) != fmt.Sprint(err) {
			t.Errorf("Validate of %+v reports\n%v\nand NewLimiter\n%v", p, invalid, err)
		}
		if err != nil {
			reports(t, invalid, mistakes(err)...)
		}
	}
}

// A share of any limit is a limit that decides, and grants at least one token.
func TestAnyShareOfAnyLimitGrantsAToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limitdraw.AnyLimit.Draw(t, "limit").WithName("a").WithUnit("")
		l.Penalty = 0 // a share's debt may be bounded earlier
		l.MaxHold = 0
		share := rapid.OneOf(rapid.Float64Range(1e-9, 1), rapid.SampledFrom([]float64{0.5, 0.1, 1.0 / 3, 0.001, 1e-300, 5e-324})).Draw(t, "share")
		limiter := core.Must(core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")}, core.Policy{Name: "api", Limits: []core.Limit{l}, LocalShare: share}))
		res := core.Must(limiter.Allow(context.Background(), "bob"))
		require.True(t, res.Allowed, "%v of %v", share, l)
		got := res.Limits()[0].Limit
		require.NoError(t, core.Policy{Name: "api", Limits: []core.Limit{got}}.Validate(), "%v of %v is %v", share, l, got)
		h := http.Header{}
		res.WriteHeaders(h)
		require.NotContains(t, h.Get("RateLimit-Policy"), "w=0", "%v of %v", share, l)
	})
}
