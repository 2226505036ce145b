package core_test

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// FuzzNamesSurviveHeaders checks that every name a constructor accepts is a
// String of RFC 9651 in the header fields, and that an independent parser
// returns the same names and numbers.
func FuzzNamesSurviveHeaders(f *testing.F) {
	for _, name := range []string{"api", "", `"`, `\`, `\"`, `a"b\c`, ";q=1", `";q=9, "x`, "a, b", " ", "~", "%", "é", "\x00", "\x7f", "a\r\nX: y", "\x80",
		`a "quoted" \ name, with; all=signs`, strings.Repeat("n", 128), strings.Repeat("n", 129), strings.Repeat(`"`, 128)} {
		f.Add(name, "burst")
		f.Add("api", name)
		f.Add(name, name)
	}
	f.Fuzz(func(t *testing.T, policy, name string) {
		limits := []core.Limit{
			core.PerSecond(5).WithName(name), core.PerMinute(50), core.PerMinute(100), core.PerHour(0.5).WithMode(core.Stepped), core.PerDay(5).WithMode(core.Aligned),
			{Capacity: 999_999_999_999_999, RefillRate: 1e9, RefillInterval: time.Millisecond},
		}
		l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: policy, Headers: core.HeadersDraft8, Limits: limits})
		if err != nil {
			return
		}
		for _, cost := range []int64{1, math.MaxInt64} {
			res, h := core.Must(l.AllowN(t.Context(), "user", cost)), http.Header{}
			res.WriteHeaders(h)
			if first := res.Limits()[0].Limit.Name; name != "" && first != name {
				t.Errorf("the first limit is called %q, want %q", first, name)
			}
			for field, params := range map[string][]string{"Ratelimit": {"r"}, "Ratelimit-Policy": {"q", "w"}} {
				list, err := httpsfv.UnmarshalList(h[field])
				require.NoError(t, err, "%s: %s is not a list of RFC 9651", field, h[field])
				require.Len(t, list, len(limits), "one member for each limit")
				for i, limit := range res.Limits() {
					member, ok := list[i].(httpsfv.Item)
					require.True(t, ok, "a member is an item")
					require.Equal(t, limit.Limit.Name, member.Value, field)
					for _, name := range params {
						n, _ := member.Params.Get(name)
						require.IsType(t, int64(0), n, "%s of %s", name, h[field])
						if name == "q" {
							require.Equal(t, limits[i].Capacity, n)
						}
					}
				}
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
		{"intervals are written short, but not cut",
			[]core.Limit{core.Per(1, 20*time.Minute), core.Per(1, 90*time.Minute), core.Per(1, 90*time.Second), core.Per(1, 10*time.Hour), core.Per(1, 1500*time.Millisecond)},
			[]string{"api-20m", "api-1h30m", "api-1m30s", "api-10h", "api-1.5s"}},
		{"names are ASCII", []core.Limit{core.Per(1, 1500*time.Nanosecond), core.Per(1, 20*time.Microsecond)}, []string{"api-1.5us", "api-20us"}},
		{"equal intervals are numbered", []core.Limit{core.PerMinute(1), core.PerMinute(2), core.PerMinute(3)}, []string{"api-1m", "api-1m-2", "api-1m-3"}},
		{"a derived name gives way to a given one", []core.Limit{core.PerMinute(1), core.PerHour(2).WithName("api-1m")}, []string{"api-1m-2", "api-1m"}},
		{"slots have names too", []core.Limit{core.InFlight(5), core.PerMinute(9), core.InFlight(4).WithUnit("gpus"), core.InFlight(3)},
			[]string{"api-at-once", "api-1m", "api-at-once-gpus", "api-at-once-2"}},
		{"names come in the order of the limits", []core.Limit{core.PerHour(2).WithName("z"), core.PerMinute(1)}, []string{"z", "api-1m"}},
	} {
		l := limittest.Limiter(t, core.NewMemoryStore(), "api", c.limits...)
		assert.Equal(t, c.limits, l.Policy().Limits, "%s: Policy returns what was given", c.rule)
		var names []string
		for _, limit := range l.Limits("user") {
			names = append(names, limit.Name)
		}
		assert.Equal(t, c.want, names, c.rule)
	}
}

// A limiter made from what Policy returns uses the same buckets, also if names
// that the first has derived are long.
func TestPolicyCanBeUsedAgain(t *testing.T) {
	for _, name := range []string{"api", strings.Repeat("n", 128)} {
		store := core.NewMemoryStore(core.WithClock(limittest.NewClock().Now))
		first := limittest.Limiter(t, store, name, core.PerMinute(10), core.PerHour(100))
		allow(t, first, 4)
		second := core.Must(core.NewLimiter(store, first.Policy()))
		allow(t, second, 4)
		wantLeft(t, first, "limiters with the same name, store and key share buckets", 2, 92)
	}
}

func TestPolicyIsACopy(t *testing.T) {
	limits := []core.Limit{core.PerMinute(10), core.PerHour(100)}
	l := limittest.Limiter(t, core.NewMemoryStore(), "api", limits...)
	limits[0].Capacity = 1
	l.Policy().Limits[1].Capacity = 1
	l.Limits("k")[0].Capacity = 1
	assert.EqualValues(t, []int64{10, 100, 10}, []int64{l.Policy().Limits[0].Capacity, l.Policy().Limits[1].Capacity, l.Limits("k")[0].Capacity},
		"a limiter copies the slices it is given and returns")
}
