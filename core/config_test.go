package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	got := mistakes(err)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("all mistakes must be reported, each as a ConfigError:\n got %q\nwant %q", got, want)
	}
	if first := (*core.ConfigError)(nil); !errors.As(err, &first) {
		t.Errorf("errors.As must find a *core.ConfigError in %v", err)
		return
	}
	for _, w := range want {
		if field, _, _ := strings.Cut(w, ": "); !strings.Contains(err.Error(), field) {
			t.Errorf("the message must name %s: %v", field, err)
		}
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
	memory := core.NewMemoryStore()
	policy := func(change func(*core.Policy)) core.Policy {
		p := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(10)}}
		change(&p)
		return p
	}
	limit := func(l core.Limit) core.Policy { return core.Policy{Name: "api", Limits: []core.Limit{l}} }
	good := policy(func(*core.Policy) {})
	for _, c := range []struct {
		rule   string
		store  func() core.Store
		policy core.Policy
		want   string
	}{
		{"a store is required", func() core.Store { return nil }, good, "NewLimiter store: <nil>"},
		{"a MemoryStore comes from NewMemoryStore", func() core.Store { return &core.MemoryStore{} }, good, "NewLimiter store: MemoryStore{}"},
		{"WithMaxKeys is positive", func() core.Store { return core.NewMemoryStore(core.WithMaxKeys(-3)) }, good, "WithMaxKeys: -3"},
		{"Redis bounds its keys itself", func() core.Store { return redisstore.New(client, core.WithMaxKeys(3)) }, good, "WithMaxKeys: 3"},
		{"a MemoryStore has no timeout", func() core.Store { return core.NewMemoryStore(redisstore.WithTimeout(time.Second)) }, good, "redisstore option: given"},
		{"a clock is required", func() core.Store { return core.NewMemoryStore(core.WithClock(nil)) }, good, "WithClock: <nil>"},
		{"a clock is required by Redis too", func() core.Store { return redisstore.New(client, core.WithClock(nil)) }, good, "WithClock: <nil>"},
		{"WithTimeout is positive", func() core.Store { return redisstore.New(client, redisstore.WithTimeout(0)) }, good, "WithTimeout: 0s"},
		{"a client is required", func() core.Store { return redisstore.New(nil) }, good, "redisstore.New client: <nil>"},

		{"a client that was never made is a nil pointer", func() core.Store { return redisstore.New((*redis.Client)(nil)) }, good, "redisstore.New client: <nil>"},
		{"so is a store", func() core.Store { return (*core.MemoryStore)(nil) }, good, "NewLimiter store: <nil>"},

		{"a policy has a name", nil, policy(func(p *core.Policy) { p.Name = "" }), "Policy.Name: "},
		{"a name is ASCII", nil, policy(func(p *core.Policy) { p.Name = "a\x7f" }), "Policy.Name: a\x7f"},
		{"a name has at most 128 bytes", nil, policy(func(p *core.Policy) { p.Name = strings.Repeat("x", 129) }), "Policy.Name: " + strings.Repeat("x", 129)},
		{"a policy has limits", nil, policy(func(p *core.Policy) { p.Limits = nil }), "Policy.Limits: 0"},
		{"a share is a number", nil, policy(func(p *core.Policy) { p.LocalShare = math.NaN() }), "Policy.LocalShare: NaN"},
		{"a share is not negative", nil, policy(func(p *core.Policy) { p.LocalShare = -0.5 }), "Policy.LocalShare: -0.5"},
		{"header styles that contradict each other", nil, policy(func(p *core.Policy) { p.Headers = core.HeadersDraft8 | core.HeadersDraft6 }), "Policy.Headers: HeadersDraft8|HeadersDraft6"},
		{"header styles beside none", nil, policy(func(p *core.Policy) { p.Headers = core.HeadersDraft8 | core.HeadersNone }), "Policy.Headers: HeadersDraft8|HeadersNone"},

		{"a capacity is positive", nil, limit(core.Limit{RefillRate: 1, RefillInterval: time.Second}), "Policy.Limits[0].Capacity: 0"},
		{"a capacity fits a header", nil, limit(core.Limit{Capacity: math.MaxInt64, RefillRate: 1e6, RefillInterval: time.Second}), "Policy.Limits[0].Capacity: 9223372036854775807"},
		{"a rate is positive", nil, limit(core.Limit{Capacity: 1, RefillInterval: time.Second}), "Policy.Limits[0].RefillRate: 0"},
		{"a rate is finite", nil, limit(core.Limit{Capacity: 1, RefillRate: math.Inf(-1), RefillInterval: time.Second}), "Policy.Limits[0].RefillRate: -Inf"},
		{"an interval is positive", nil, limit(core.Limit{Capacity: 1, RefillRate: 1}), "Policy.Limits[0].RefillInterval: 0s"},
		{"an interval is at most 100 years", nil, limit(core.Limit{Capacity: 1, RefillRate: 1e6, RefillInterval: 101 * 365 * 24 * time.Hour}),
			"Policy.Limits[0].RefillInterval: 884760h0m0s"},
		{"a bucket fills within 100 years", nil, limit(core.Limit{Capacity: 999_999_999_999_999, RefillRate: 1, RefillInterval: time.Second}),
			"Policy.Limits[0].RefillRate: 1"},
		{"a rate is not too small", nil, limit(core.Limit{Capacity: 1, RefillRate: math.SmallestNonzeroFloat64, RefillInterval: time.Second}),
			"Policy.Limits[0].RefillRate: 5e-324"},
		{"a mode is one of four", nil, limit(core.PerMinute(1).WithMode(4)), "Policy.Limits[0].Mode: Mode(4)"},
		{"names differ", nil, policy(func(p *core.Policy) {
			p.Limits = []core.Limit{core.PerMinute(1).WithName("a"), core.PerHour(1), core.PerDay(1).WithName("a")}
		}), "Policy.Limits[2].Name: a"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var store core.Store = memory
			if c.store != nil {
				store = c.store()
			}
			l, err := core.NewLimiter(store, c.policy)
			if l != nil || err == nil {
				t.Fatalf("NewLimiter must refuse %s", c.want)
			}
			reports(t, err, c.want)
		})
	}
}

func TestWithLimitsReportsMistakes(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", core.PerMinute(10))
	_, err := l.WithLimits(core.Limit{Capacity: -1, RefillRate: math.NaN()}, core.PerDay(1).WithName("\n"))
	reports(t, err, "WithLimits[0].Capacity: -1", "WithLimits[0].RefillRate: NaN", "WithLimits[0].RefillInterval: 0s", "WithLimits[1].Name: \n")
	_, err = l.WithLimits()
	reports(t, err, "WithLimits: 0")
}

// Each of three replicas grants a third of a limit, and 1/3 is no decimal.
func TestAnyLocalShareOfAnyLimitIsValid(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	store := redisstore.New(client)
	for _, mode := range []core.Mode{core.Continuous, core.Stepped, core.Aligned} {
		for _, share := range []float64{1.0 / 3, 1.0 / 7, 0.1, 1e-3} {
			if _, err := core.NewLimiter(store, core.Policy{Name: "api", LocalShare: share, Limits: []core.Limit{core.PerMinute(100).WithMode(mode)}}); err != nil {
				t.Errorf("a share of %v of a %v limit must be accepted: %v", share, mode, err)
			}
		}
	}
}

func TestMistakesSayWhatIsProbablyMeant(t *testing.T) {
	for want, p := range map[string]core.Policy{
		"Policy.Limits[0].RefillInterval: 30ns must be at least 1µs: a number without a unit counts nanoseconds, so write 30*time.Second if you mean that": {Name: "api", Limits: []core.Limit{{Capacity: 5, RefillRate: 5, RefillInterval: 30}}},
		"if it comes from a map, check the name it is looked up by":                                                                                        {},
	} {
		_, err := core.NewLimiter(core.NewMemoryStore(), p)
		assert.ErrorContains(t, err, want)
	}
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
		share := rapid.OneOf(rapid.Float64Range(1e-9, 1), rapid.SampledFrom([]float64{0.5, 0.1, 1.0 / 3, 0.001})).Draw(t, "share")
		limiter, err := core.NewLimiter(&limittest.AwayStore{Err: errors.New("away")}, core.Policy{Name: "api", Limits: []core.Limit{l}, LocalShare: share})
		require.NoError(t, err)
		res, err := limiter.Allow(context.Background(), "bob")
		require.NoError(t, err)
		require.True(t, res.Allowed, "%v of %v", share, l)
		got := res.Limits()[0].Limit
		require.NoError(t, core.Policy{Name: "api", Limits: []core.Limit{got}}.Validate(), "%v of %v is %v", share, l, got)
	})
}
