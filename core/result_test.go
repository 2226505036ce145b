package core_test

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

func TestResultReportsEachLimit(t *testing.T) {
	clock := limittest.NewClock()
	l := limittest.Limiter(t, core.NewMemoryStore(core.WithClock(clock.Now)), "api",
		core.PerMinute(10).WithName("burst"), core.PerHour(12), core.PerDay(100).WithName("day").WithMode(core.Stepped))
	if _, err := l.AllowN(t.Context(), "user", 10); err != nil {
		t.Fatal(err)
	}
	res, err := l.AllowN(t.Context(), "user", 3)
	if err != nil {
		t.Fatal(err)
	}
	if res.Allowed || res.Cost != 3 || res.Source != core.FromStore || res.Cause != nil {
		t.Errorf("a denial by the store: %+v", res)
	}
	// The hour has the longest RetryAfter: 1 of 3 tokens is missing, 12 come in 60 minutes.
	if res.Remaining != 2 || res.RetryAfter != 5*time.Minute || res.ResetAfter != 24*time.Hour {
		t.Errorf("the result describes the tightest limit: %d left, retry after %v, full in %v; want 2, 5m, 24h", res.Remaining, res.RetryAfter, res.ResetAfter)
	}
	want := []core.LimitResult{
		{Limit: core.PerMinute(10).WithName("burst"), Cost: 3, Remaining: 0, Violated: true, RetryAfter: 18 * time.Second, ResetAfter: time.Minute},
		{Limit: core.PerHour(12).WithName("api-1h"), Cost: 3, Remaining: 2, Violated: true, RetryAfter: 5 * time.Minute, ResetAfter: 50 * time.Minute},
		{Limit: core.PerDay(100).WithName("day").WithMode(core.Stepped), Cost: 3, Remaining: 90, ResetAfter: 24 * time.Hour},
	}
	got := res.Limits()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("limit %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
	never, err := l.AllowN(t.Context(), "user", 13)
	if err != nil || never.Allowed || never.RetryAfter != core.Never {
		t.Fatalf("13 of 12 an hour: allowed %v, retry after %v, %v", never.Allowed, never.RetryAfter, err)
	}
	for i, retry := range []time.Duration{core.Never, core.Never, 0} {
		if got := never.Limits()[i].RetryAfter; got != retry {
			t.Errorf("limit %d: a cost of 13 has RetryAfter %v, want %v", i, got, retry)
		}
	}
}

func TestResultWithoutDecisionHasNoLimits(t *testing.T) {
	if got := (core.Result{}).Limits(); got != nil {
		t.Errorf("the zero Result must have no limits: %+v", got)
	}
	h := limittest.HeaderList{}
	core.Result{}.WriteHeaders(h)
	if len(h) > 0 {
		t.Errorf("the zero Result must write no headers: %v", h)
	}
}
