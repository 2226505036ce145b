package advice_test

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/clientlimit/internal/advice"
)

// now is when answers come; the servers' clock is two hours behind.
var (
	now  = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	sent = now.Add(-2 * time.Hour)
)

func fields(list ...string) http.Header {
	h := http.Header{"Date": {sent.Format(http.TimeFormat)}}
	for i := 0; i < len(list); i += 2 {
		h.Add(list[i], list[i+1])
	}
	return h
}

func TestReadKnowsEachDialect(t *testing.T) {
	const s, requests = time.Second, advice.Requests
	in := sent.Add(90 * s)
	quota := func(q ...advice.Quota) advice.Advice { return advice.Advice{Quotas: q} }
	for dialect, c := range map[string]struct {
		fields http.Header
		want   advice.Advice
	}{
		"nothing":                           {fields(), advice.Advice{}},
		"Retry-After in seconds":            {fields("Retry-After", "120"), advice.Advice{RetryAfter: 120 * s}},
		"Retry-After as a date":             {fields("Retry-After", in.Format(http.TimeFormat)), advice.Advice{RetryAfter: 90 * s}},
		"Retry-After of the past":           {fields("Retry-After", sent.Add(-s).Format(http.TimeFormat)), advice.Advice{}},
		"Retry-After below 0":               {fields("Retry-After", "-5"), advice.Advice{}},
		"Retry-After with a fraction":       {fields("Retry-After", "1.5"), advice.Advice{RetryAfter: 1500 * time.Millisecond}},
		"Retry-After as a power":            {fields("Retry-After", "1e308"), advice.Advice{}},
		"Retry-After-Ms":                    {fields("Retry-After-Ms", "250.5", "Retry-After", "1"), advice.Advice{RetryAfter: 250500 * time.Microsecond}},
		"Retry-After-Ms that can't be read": {fields("Retry-After-Ms", "soon", "Retry-After", "1"), advice.Advice{RetryAfter: s}},
		"Retry-After-Ms below 0":            {fields("Retry-After-Ms", "-1"), advice.Advice{}},
		"Retry-After without bound":         {fields("Retry-After", strings.Repeat("9", 60)), advice.Advice{RetryAfter: 10 * 365 * 24 * time.Hour}},
		"drafts 8 to 11": {
			fields("RateLimit-Policy", `"burst";q=20;w=2, "day, \"all\"";q=1000;w=86400`, "RateLimit", `"burst";r=7;t=1`, "RateLimit", `"day, \"all\"";r=900;t=600`),
			quota(advice.Quota{requests, 7, s, true}, advice.Quota{requests, 900, 600 * s, true}),
		},
		"without t, with partitions and units": {
			fields("RateLimit-Policy", `"a";q=20;w=60;qu="tokens"`, "RateLimit", `"a";r=7;pk=:dGVzdA==:, "a";r=3;pk=:b3RoZXI=:`),
			quota(advice.Quota{"tokens", 7, 60 * s, true}, advice.Quota{"tokens", 3, 60 * s, true}),
		},
		"a name with =":                   {fields("RateLimit", `"tier=gold";r=7;t=1`), quota(advice.Quota{requests, 7, s, true})},
		"the next draft":                  {fields("RateLimit", `"a";a=7;w=60, "b";a=5;t=3;w=60`), quota(advice.Quota{requests, 7, 60 * s, true}, advice.Quota{requests, 5, 3 * s, true})},
		"slots":                           {fields("RateLimit-Policy", `"slots";q=5;qu="concurrent-requests"`, "RateLimit", `"slots";r=0;t=60`), advice.Advice{}},
		"an answer from a cache":          {fields("Age", "3", "RateLimit", `"a";r=0;t=60`, "Retry-After", "5"), advice.Advice{RetryAfter: 5 * s}},
		"an answer that a cache just got": {fields("Age", "0", "RateLimit", `"a";r=0;t=60`), quota(advice.Quota{requests, 0, 60 * s, true})},
		"Discord": {fields("X-RateLimit-Remaining", "4", "X-RateLimit-Reset", "1470173023.123", "X-RateLimit-Reset-After", "1.25", "X-RateLimit-Bucket", "abcd"),
			advice.Advice{Name: "abcd", Quotas: []advice.Quota{{requests, 4, 1250 * time.Millisecond, false}}}},
		"a resource":            {fields("X-RateLimit-Resource", "search"), advice.Advice{Name: "search"}},
		"draft 7":               {fields("RateLimit", "limit=100, remaining=50, reset=5"), quota(advice.Quota{requests, 50, 5 * s, true})},
		"draft 6":               {fields("RateLimit-Limit", "100, 100;w=60", "RateLimit-Remaining", "50", "RateLimit-Reset", "5"), quota(advice.Quota{requests, 50, 5 * s, true})},
		"GitHub: a Unix second": {fields("X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "4999", "X-RateLimit-Reset", strconv.FormatInt(in.Unix(), 10)), quota(advice.Quota{requests, 4999, 90 * s, true})},
		"seconds from now":      {fields("X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30"), quota(advice.Quota{requests, 0, 30 * s, true})},
		"a date":                {fields("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", in.Format(http.TimeFormat)), quota(advice.Quota{requests, 0, 90 * s, true})},
		"GitLab":                {fields("RateLimit-Limit", "600", "RateLimit-Observed", "6", "RateLimit-Remaining", "594", "RateLimit-Reset", strconv.FormatInt(in.Unix(), 10), "RateLimit-ResetTime", in.Format(http.TimeFormat)), quota(advice.Quota{requests, 594, 90 * s, true})},
		"GitLab's date alone":   {fields("RateLimit-Remaining", "594", "RateLimit-ResetTime", in.Format(http.TimeFormat)), quota(advice.Quota{requests, 594, 90 * s, true})},
		"OpenAI": {
			fields("x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "20ms",
				"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6m0s"),
			quota(advice.Quota{requests, 59, 20 * time.Millisecond, false}, advice.Quota{"tokens", 149984, 6 * time.Minute, false}),
		},
		"Anthropic": {
			fields("anthropic-ratelimit-requests-limit", "50", "anthropic-ratelimit-requests-remaining", "49", "anthropic-ratelimit-requests-reset", in.Format(time.RFC3339),
				"anthropic-ratelimit-output-tokens-remaining", "0", "anthropic-ratelimit-output-tokens-reset", in.Format(time.RFC3339), "retry-after", "7"),
			advice.Advice{RetryAfter: 7 * s, Quotas: []advice.Quota{{requests, 49, 90 * s, true}, {"output-tokens", 0, 90 * s, true}}},
		},
		"garbage": {fields("RateLimit", `;;,"";r=x,"a";r=-1,=,"`, "X-RateLimit-Remaining", "NaN", "Retry-After", "soon", "RateLimit-Remaining", "-3"), advice.Advice{}},
	} {
		if got := advice.Read(c.fields, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", dialect, got, c.want)
		}
	}
}

// A million fields cost no more than a few.
func TestTheCostsAreBounded(t *testing.T) {
	h := http.Header{}
	line := `"` + strings.Repeat(`\"`, 2000) + `";r=1,` + strings.Repeat(`"a";r=1;t=1,`, 1000)
	h["Ratelimit"] = make([]string, 1_000_000)
	for i := range h["Ratelimit"] {
		h["Ratelimit"][i] = line
	}
	if allocs := testing.AllocsPerRun(10, func() { advice.Read(h, now) }); allocs > 1000 {
		t.Errorf("%.0f allocations, want a number that does not depend on the answer", allocs)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("120", `"a";r=1;t=5`, `"a";q=5;w=5`, "5", "1563325137")
	f.Add("-1", `limit=5, remaining=4`, ``, "1e999", "6m0s")
	f.Add("1.5", `"a";a=7;w=60`, ``, "NaN", "1e308")
	f.Add("Wed, 17 Jul 2019 00:58:57 GMT", `"\`, `;`, ".", "2019-07-17T00:58:57Z")
	f.Fuzz(func(t *testing.T, retry, limit, policy, left, reset string) {
		h := fields("Retry-After", retry, "Retry-After-Ms", retry, "RateLimit", limit, "RateLimit-Policy", policy, "X-RateLimit-Remaining", left, "X-RateLimit-Reset", reset, "X-RateLimit-Limit", left)
		a := advice.Read(h, now)
		if a.RetryAfter < 0 || len(a.Quotas) > advice.MaxQuotas {
			t.Errorf("%+v", a)
		}
		for _, q := range a.Quotas {
			if q.Left < 0 || q.Reset < 0 || q.Reset > 10*365*24*time.Hour || q.Unit == "" {
				t.Errorf("%+v of %q", q, h)
			}
		}
	})
}
