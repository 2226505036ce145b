package core_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// FuzzNamesSurviveHeaders checks that every name a constructor accepts is a
// String of RFC 9651 in the header fields, and that a parser returns the same
// name.
func FuzzNamesSurviveHeaders(f *testing.F) {
	for _, name := range []string{"api", "", `"`, `\`, `\"`, `a"b\c`, ";q=1", `";q=9, "x`, "a, b", " ", "~", "%", "é", "\x00", "\x7f", "a\r\nX: y", "\x80",
		strings.Repeat("n", 128), strings.Repeat("n", 129), strings.Repeat(`"`, 128)} {
		f.Add(name, "burst")
		f.Add("api", name)
		f.Add(name, name)
	}
	f.Fuzz(func(t *testing.T, policy, limit string) {
		l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: policy, Headers: core.HeadersDraft8,
			Limits: []core.Limit{core.PerSecond(5).WithName(limit), core.PerMinute(50), core.PerMinute(100)}})
		if err != nil {
			return
		}
		res := core.Must(l.Allow(t.Context(), "user"))
		var want []string
		for _, limit := range res.Limits() {
			want = append(want, limit.Limit.Name)
		}
		if limit != "" && want[0] != limit {
			t.Errorf("the first limit is called %q, want %q", want[0], limit)
		}
		h := http.Header{}
		res.WriteHeaders(h)
		for _, field := range []string{"Ratelimit", "Ratelimit-Policy"} {
			list, err := httpsfv.UnmarshalList(h[field])
			if err != nil {
				t.Fatalf("%s: %s is not a list of RFC 9651: %v", field, h[field], err)
			}
			var got []string
			for _, member := range list {
				name, _ := member.(httpsfv.Item).Value.(string)
				got = append(got, name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s names %q, want %q", field, h[field], got, want)
			}
		}
	})
}

func TestUnnamedLimitsGetNames(t *testing.T) {
	for _, c := range []struct {
		rule   string
		limits []core.Limit
		want   []string
	}{
		{"a sole limit takes its policy's name", []core.Limit{core.PerMinute(1)}, []string{"api"}},
		{"a name of its own stays", []core.Limit{core.PerMinute(1).WithName("burst")}, []string{"burst"}},
		{"each of several gets the name of its interval", []core.Limit{core.PerSecond(1), core.PerMinute(1), core.PerHour(1), core.PerDay(1)},
			[]string{"api-1s", "api-1m", "api-1h", "api-24h"}},
		{"intervals are written short, but not cut", []core.Limit{
			{Capacity: 1, RefillRate: 1, RefillInterval: 20 * time.Minute}, {Capacity: 1, RefillRate: 1, RefillInterval: 90 * time.Minute},
			{Capacity: 1, RefillRate: 1, RefillInterval: 90 * time.Second}, {Capacity: 1, RefillRate: 1, RefillInterval: 10 * time.Hour},
			{Capacity: 1, RefillRate: 1, RefillInterval: 1500 * time.Millisecond}},
			[]string{"api-20m", "api-1h30m", "api-1m30s", "api-10h", "api-1.5s"}},
		{"names are ASCII", []core.Limit{
			{Capacity: 1, RefillRate: 1, RefillInterval: 1500 * time.Nanosecond}, {Capacity: 1, RefillRate: 1, RefillInterval: 20 * time.Microsecond}},
			[]string{"api-1.5us", "api-20us"}},
		{"equal intervals are numbered", []core.Limit{core.PerMinute(1), core.PerMinute(2), core.PerMinute(3)}, []string{"api-1m", "api-1m-2", "api-1m-3"}},
		{"a derived name gives way to a given one", []core.Limit{core.PerMinute(1), core.PerHour(2).WithName("api-1m")}, []string{"api-1m-2", "api-1m"}},
		{"names come in the order of the limits", []core.Limit{core.PerHour(2).WithName("z"), core.PerMinute(1)}, []string{"z", "api-1m"}},
	} {
		l := limittest.Limiter(t, core.NewMemoryStore(), "api", c.limits...)
		if given := l.Policy().Limits; !slices.Equal(given, c.limits) {
			t.Errorf("%s: Policy returns %v, want what was given, %v", c.rule, given, c.limits)
		}
		var names []string
		res := core.Must(l.Peek(t.Context(), "user"))
		for _, limit := range res.Limits() {
			names = append(names, limit.Limit.Name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s: the result has the names %q, want %q", c.rule, names, c.want)
		}
	}
}

// A limiter made from what Policy returns uses the same buckets.
func TestPolicyCanBeUsedAgain(t *testing.T) {
	store := core.NewMemoryStore()
	first := limittest.Limiter(t, store, "api", core.PerMinute(10), core.PerHour(100))
	if _, err := first.AllowN(t.Context(), "user", 4); err != nil {
		t.Fatal(err)
	}
	second := core.Must(core.NewLimiter(store, first.Policy()))
	res, err := second.Peek(t.Context(), "user")
	if err != nil || res.Remaining != 6 {
		t.Errorf("limiters with the same name, store and key share buckets: %d tokens left, %v; want 6", res.Remaining, err)
	}
	admitted := 0
	for range 100 {
		for _, l := range []*core.Limiter{first, second} {
			if res, err := l.Allow(t.Context(), "other"); err != nil {
				t.Fatal(err)
			} else if res.Allowed {
				admitted++
			}
		}
	}
	if admitted > 11 { // the clock may add one token
		t.Errorf("two limiters, one of the policy that Policy returned, admitted %d of 10: they must share their buckets", admitted)
	}
}

func TestPolicyOfLongNameCanBeUsedAgain(t *testing.T) {
	l := limittest.Limiter(t, core.NewMemoryStore(), strings.Repeat("n", 128), core.PerMinute(10), core.PerHour(100))
	if _, err := core.NewLimiter(core.NewMemoryStore(), l.Policy()); err != nil {
		t.Errorf("a constructor must accept the names it derived: %v", err)
	}
}

func TestPolicyIsACopy(t *testing.T) {
	limits := []core.Limit{core.PerMinute(10), core.PerHour(100)}
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", limits...)
	limits[0].Capacity = 1
	l.Policy().Limits[1].Capacity = 1
	if got := l.Policy().Limits; got[0].Capacity != 10 || got[1].Capacity != 100 {
		t.Errorf("a limiter must copy the slices it is given and returns: %+v", got)
	}
}
