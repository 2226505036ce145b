package core_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// noon is 2026-01-01 12:00:00 UTC, second 1767268800 of the Unix clock.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// spend takes each of costs from a full bucket, the last one at the given time
// after noon. It returns the header fields of the last decision.
func spend(t *testing.T, style core.HeaderStyle, limits []core.Limit, after time.Duration, costs ...int64) http.Header {
	t.Helper()
	now := noon
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	l := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: limits, Headers: style}))
	h := http.Header{}
	for i, cost := range costs {
		if i == len(costs)-1 {
			now = now.Add(after)
		}
		h = http.Header{}
		core.Must(l.AllowN(t.Context(), "k", cost)).WriteHeaders(h)
	}
	return h
}

// onlyLine returns the value of a field that occurs at most once, or "".
func onlyLine(t *testing.T, h http.Header, name string) string {
	t.Helper()
	require.LessOrEqual(t, len(h.Values(name)), 1, name)
	return h.Get(name)
}

// The fields of each style, of which reset is a second behind noon, and of a
// denial.
func legacy(limit, remaining, reset int64) map[string]string {
	return map[string]string{
		"X-RateLimit-Limit": fmt.Sprint(limit), "X-RateLimit-Remaining": fmt.Sprint(remaining), "X-RateLimit-Reset": fmt.Sprint(noon.Unix() + reset),
	}
}

func draft8(policy, state string) map[string]string {
	return map[string]string{"RateLimit-Policy": policy, "RateLimit": state}
}

func draft6(limit, remaining, reset int64, policy string) map[string]string {
	return map[string]string{
		"RateLimit-Limit": fmt.Sprint(limit), "RateLimit-Remaining": fmt.Sprint(remaining), "RateLimit-Reset": fmt.Sprint(reset), "RateLimit-Policy": policy,
	}
}

func deniedFor(seconds string) map[string]string {
	return map[string]string{"Retry-After": seconds, "Cache-Control": "no-store"}
}

// The expected values follow from the formulas in HeaderStyle: B capacity, ρ
// refill per second, T tokens left.
func TestHeaderFieldsOfEachStyle(t *testing.T) {
	minute := []core.Limit{{Capacity: 10, RefillRate: 5, RefillInterval: time.Minute}} // ρ = 1/12
	stepped := []core.Limit{minute[0].WithMode(core.Stepped)}
	aligned := []core.Limit{minute[0].WithMode(core.Aligned)}
	several := []core.Limit{
		{Name: "burst", Capacity: 4, RefillRate: 2, RefillInterval: time.Second}, // w = 2
		core.PerHour(100).WithName("hourly"),
	}
	const policy, policies = `"api";q=10;w=120`, `"burst";q=4;w=2, "hourly";q=100;w=3600`
	type fields = []map[string]string
	for _, c := range []struct {
		name   string
		style  core.HeaderStyle
		limits []core.Limit
		after  time.Duration // between the last decision and those before
		costs  []int64
		want   fields // all that are sent
	}{
		{"legacy, allowed: the bucket is full after 36 s", core.HeadersLegacy, minute, 0, []int64{3}, fields{legacy(10, 7, 36)}},
		{"legacy, a part of a token left counts as none, a part of a second as one", core.HeadersLegacy, minute, 500 * time.Millisecond, []int64{3, 1}, fields{legacy(10, 6, 48)}},
		{"legacy, denied: 4 of 3 wait for one token, 12 s", core.HeadersLegacy, minute, 0, []int64{7, 4}, fields{legacy(10, 3, 84), deniedFor("12")}},
		{"Draft8, allowed: T/ρ = 7 × 12", core.HeadersDraft8, minute, 0, []int64{3}, fields{draft8(policy, `"api";r=7;t=84`)}},
		{"Draft8, allowed with nothing left: (1−T)/ρ", core.HeadersDraft8, minute, 6 * time.Second, []int64{9, 1}, fields{draft8(policy, `"api";r=0;t=6`)}},
		{"Draft8, denied: r=0 and t is Retry-After, (n−T)/ρ", core.HeadersDraft8, minute, 1500 * time.Millisecond, []int64{8, 4}, fields{draft8(policy, `"api";r=0;t=23`), deniedFor("23")}},
		{"denied for ever: other requests can use what is left", core.HeadersDefault, minute, 0, []int64{6, 11},
			fields{draft8(policy, `"api";r=4;t=48`), legacy(10, 4, 72), {"Cache-Control": "no-store"}}},
		{"draft 6, allowed", core.HeadersDraft6, minute, 0, []int64{3}, fields{draft6(10, 7, 36, "10;w=120")}},
		{"draft 6, denied", core.HeadersDraft6, minute, 0, []int64{10, 1}, fields{draft6(10, 0, 120, "10;w=120"), deniedFor("12")}},
		{"none, allowed", core.HeadersNone, minute, 0, []int64{3}, nil},
		{"none, denied", core.HeadersNone, minute, 0, []int64{10, 1}, fields{deniedFor("12")}},
		{"default is legacy and Draft8", core.HeadersDefault, minute, 0, []int64{3}, fields{legacy(10, 7, 36), draft8(policy, `"api";r=7;t=84`)}},
		{"stepped: t is the next step, 60 s after the first use", core.HeadersDraft8, stepped, 20 * time.Second, []int64{3, 1}, fields{draft8(policy, `"api";r=6;t=40`)}},
		{"stepped, full: t is a whole step", core.HeadersDraft8, stepped, 0, []int64{0}, fields{draft8(policy, `"api";r=10;t=60`)}},
		{"stepped, denied: 10 tokens are two steps away", core.HeadersDraft8, stepped, 20 * time.Second, []int64{6, 10}, fields{draft8(policy, `"api";r=0;t=100`), deniedFor("100")}},
		{"stepped, reset: full again after two steps", core.HeadersLegacy, stepped, 20 * time.Second, []int64{5, 1}, fields{legacy(10, 4, 120)}},
		{"aligned: t is the next minute of the clock", core.HeadersDraft8, aligned, 45 * time.Second, []int64{0, 1}, fields{draft8(policy, `"api";r=9;t=15`)}},
		{"aligned, denied: the next minute brings five", core.HeadersDefault, aligned, 45 * time.Second, []int64{10, 1},
			fields{legacy(10, 0, 120), draft8(policy, `"api";r=0;t=15`), deniedFor("15")}},
		{"several limits: legacy fields describe the tightest, Draft8 fields all", core.HeadersDefault, several, 0, []int64{3},
			fields{legacy(4, 1, 2), draft8(policies, `"burst";r=1;t=1, "hourly";r=97;t=3492`)}},
		{"several limits, one violated: the other keeps its own numbers", core.HeadersDefault, several, 0, []int64{4, 2},
			fields{legacy(4, 0, 2), draft8(policies, `"burst";r=0;t=1, "hourly";r=96;t=3456`), deniedFor("1")}},
		{"several limits, draft 6", core.HeadersDraft6, several, 0, []int64{3}, fields{draft6(4, 1, 2, "4;w=2, 100;w=3600")}},
	} {
		want := http.Header{}
		for _, part := range c.want {
			for name, value := range part {
				want.Set(name, value)
			}
		}
		assert.Equal(t, want, spend(t, c.style, c.limits, c.after, c.costs...), c.name)
	}
}

func TestStackedLimitersSendTheTightestHeaders(t *testing.T) {
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return noon }))
	limiter := func(name string, capacity int64) *core.Limiter {
		return limittest.Limiter(t, store, name, core.PerSecond(1).WithBurst(capacity))
	}
	tight, wide, empty := limiter("tight", 2), limiter("wide", 50), limiter("empty", 5)
	allow(t, empty, 5)
	for _, c := range []struct {
		name      string
		stack     []*core.Limiter
		limit     string // of the single-valued fields
		remaining string
		members   []string
	}{
		{"the tighter outer one stays", []*core.Limiter{tight, wide}, "2", "1", []string{`"tight";r=1;t=1`, `"wide";r=49;t=49`}},
		{"the tighter inner one replaces", []*core.Limiter{wide, tight}, "2", "0", []string{`"wide";r=48;t=48`, `"tight";r=0;t=1`}},
		{"the one that denies replaces", []*core.Limiter{wide, empty}, "5", "0", []string{`"wide";r=47;t=47`, `"empty";r=0;t=1`}},
	} {
		h := http.Header{}
		for _, l := range c.stack {
			core.Must(l.Allow(t.Context(), "k")).WriteHeaders(h)
		}
		assert.Equal(t, c.limit, onlyLine(t, h, "X-RateLimit-Limit"), c.name)
		assert.Equal(t, c.remaining, onlyLine(t, h, "X-RateLimit-Remaining"), c.name)
		assert.Equal(t, c.members, h.Values("RateLimit"), c.name)
	}
}

// Programs may store the values.
func TestValuesOfStylesNeverChange(t *testing.T) {
	assert.Equal(t, []core.HeaderStyle{0, 1, 2, 4, 8},
		[]core.HeaderStyle{core.HeadersDefault, core.HeadersLegacy, core.HeadersDraft8, core.HeadersDraft6, core.HeadersNone})
}

// A policy keeps nothing of a response that it wrote: whoever changes one in
// place changes no other.
func TestResponsesShareNoFields(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(60)}}))
	answer := func() http.Header {
		h := http.Header{}
		core.Must(limiter.Allow(t.Context(), "k")).WriteHeaders(h)
		return h
	}
	first, second := answer(), answer()
	want := second.Clone()
	for name := range first {
		first[name][0] = "changed"
		first[name] = append(first[name], "more")
	}
	assert.Equal(t, want, second)
	for name, values := range answer() {
		assert.NotContains(t, values, "changed", name)
	}
}

// Fields that need more room than there is are written all the same.
func TestFieldsBeyondTheirRoom(t *testing.T) {
	limits := []core.Limit{core.PerMinute(5), core.PerHour(50), core.PerDay(500)}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "a-policy-with-a-long-name", Limits: limits}))
	h := http.Header{}
	core.Must(limiter.AllowN(t.Context(), "k", 6)).WriteHeaders(h)
	assert.Equal(t, `"a-policy-with-a-long-name-1m";r=5;t=60, "a-policy-with-a-long-name-1h";r=50;t=3600, "a-policy-with-a-long-name-24h";r=500;t=86400`, h.Get("RateLimit"))
	assert.Equal(t, "no-store", h.Get("Cache-Control"))
	assert.Equal(t, "5", h.Get("X-RateLimit-Limit"))
}

// Who can never pass is not told to come back in a second, also if nothing is
// left.
func TestFieldsOfWhatCanNeverPass(t *testing.T) {
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(3)}, Blocked: []string{"bob"}}))
	allow(t, l, 3)
	for key, cost := range map[string]int64{"k": 4, "bob": 1} {
		res, h := core.Must(l.AllowN(t.Context(), key, cost)), http.Header{}
		require.Equal(t, core.Never, res.RetryAfter)
		res.WriteHeaders(h)
		require.NotContains(t, h.Get("Ratelimit"), "t=1", key)
		require.Empty(t, h.Get("Retry-After"))
	}
}
