package report_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/report"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// reported is the report of a log in CSV through policies.
func reported(t testing.TB, log string, o replay.Options, policies ...core.Policy) *report.Report {
	t.Helper()
	c, err := replay.NewCollector(o)
	require.NoError(t, err)
	require.NoError(t, accesslog.Read(strings.NewReader(log), o.Log, func(l *accesslog.Line) error { c.Add("a.csv", l); return nil }, func(b accesslog.Bad) { c.Bad("a.csv", b) }))
	traffic, err := c.Traffic()
	require.NoError(t, err)
	keys, err := show.ParseKeys("show", "")
	require.NoError(t, err)
	r := &report.Report{Traffic: traffic, Keys: keys, Zone: time.UTC, Logs: []string{"a.csv"}}
	for _, p := range policies {
		outcomes, err := traffic.Play(t.Context(), p.Name, p, 0.999, func(int) {})
		require.NoError(t, err)
		r.Outcomes = append(r.Outcomes, outcomes...)
	}
	return r
}

func html(t testing.TB, r *report.Report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.HTML(&b))
	return b.String()
}

// requests are lines of a CSV log: n of a client, so far apart, from the
// second on.
func requests(client string, from, n, apart int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,%s,\n", 1772409600+from+i*apart, client)
	}
	return b.String()
}

const head = "time,ip,tier\n"

func limit(t testing.TB, text string) core.Limit {
	t.Helper()
	l, err := core.ParseLimit(text)
	require.NoError(t, err)
	return l
}

// The page begins with what the policy does, in a sentence, and ends with what
// was not played.
func TestThePageLeadsWithItsVerdict(t *testing.T) {
	busy, other := requests("192.0.2.1", 0, 8, 0), requests("192.0.2.2", 7200, 7, 0)
	for want, log := range map[string]string{
		"api denies none of 2 requests.":                           requests("192.0.2.1", 0, 2, 0),
		"api denies 1 of 6 requests.":                              requests("192.0.2.1", 0, 6, 0),
		"api denies 3 of 8 requests, all from one client.":         busy,
		"api denies 5 of 15 requests, from 2 of 2 clients.":        busy + other,
		"api denies 1,000 of 1,005 requests, all from one client.": requests("192.0.2.1", 0, 1005, 0),
	} {
		page := html(t, reported(t, head+log, replay.Options{Key: "ip"}, core.Policy{Name: "api", Limits: []core.Limit{limit(t, "5/h")}}))
		assert.Contains(t, page, "<h1>"+want+"</h1>")
		assert.Contains(t, page, "<li>Every line was played.</li>")
	}

	p := core.Policy{Name: "api", Limits: []core.Limit{limit(t, "5/h"), limit(t, "2 at once name slots")}}
	page := html(t, reported(t, head+busy+"never,192.0.2.9,\n", replay.Options{Key: "ip"}, p, core.Policy{Name: "wide", Limits: []core.Limit{limit(t, "50/h")}}))
	parts := []string{"<h1>What 2 policies would deny", "<li>api denies 3 of 8", "<li>wide denies none", "Traffic</h2>", "lines not played", "Denied</h2>", "Requests, by hour", "Denied by api",
		"Denied by wide: none", "limits:\n", "What was not played", "1 line can&#39;t be read", "slots&#34; counts requests under way"}
	for rest := page; len(parts) > 0; parts = parts[1:] {
		_, after, found := strings.Cut(rest, parts[0])
		require.True(t, found, "%q is missing, or comes too early", parts[0])
		rest = after
	}
}

var (
	panels = regexp.MustCompile(`(?s)<div class="plot (all|denied)">.*?</svg>`)
	marks  = regexp.MustCompile(`<span style="bottom: ([\d.]+)%">([\d,]+)</span>`)
	bars   = regexp.MustCompile(`<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"><title>(.*?): ([\d,]+)`)
	times  = regexp.MustCompile(`<span style="left: ([\d.]+)%[^>]*>`)
)

func number(t testing.TB, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	require.NoError(t, err)
	return n
}

// Whatever the traffic, plots have one time axis and axes with marks at round
// numbers, a bar is as high as its number, and all denied requests are in bars.
func TestPlotsShareTheirTimesAndHaveAxes(t *testing.T) {
	for seed := range uint64(14) {
		random := rand.New(rand.NewPCG(seed, 44))
		log, most := head, 1<<(2*seed+1)
		for range 1 + random.IntN(40) {
			log += requests(fmt.Sprintf("192.0.2.%d", random.IntN(3)), random.IntN(most), 1+random.IntN(20), random.IntN(2))
		}
		r := reported(t, log, replay.Options{Key: "ip"}, core.Policy{Name: "a", Limits: []core.Limit{limit(t, "3/min")}}, core.Policy{Name: "b", Limits: []core.Limit{limit(t, "9/h")}})
		page := html(t, r)
		plots := panels.FindAllString(page, -1)
		require.Len(t, plots, 3)
		place := make(map[string]string) // of the bars of a period
		for i, plot := range plots {
			scale := marks.FindAllStringSubmatch(plot, -1)
			require.True(t, len(scale) >= 2 && len(scale) <= 5, "a y-axis with %d marks", len(scale))
			top := number(t, scale[len(scale)-1][2])
			for j, m := range scale {
				assert.InDelta(t, 100*number(t, m[2])/top, number(t, m[1]), 0.01, "a mark stands at its number")
				assert.Regexp(t, `^(0|[1-9][\d,]*)$`, m[2])
				assert.InDelta(t, top*float64(j)/float64(len(scale)-1), number(t, m[2]), 1e-6, "marks are evenly spaced")
			}
			sum := 0.0
			for _, b := range bars.FindAllStringSubmatch(plot, -1) {
				n := number(t, b[6])
				sum += n
				assert.InDelta(t, 100*n/top, number(t, b[4]), 0.01, "the height of a bar of %s", b[6])
				assert.InDelta(t, 100, number(t, b[2])+number(t, b[4]), 0.02, "a bar stands on the axis")
				if i == 0 {
					place[b[5]] = b[1]
				}
				assert.Equal(t, place[b[5]], b[1], "the bars of a time are below each other")
			}
			want := r.Traffic.Requests
			if i > 0 {
				want = r.Outcomes[i-1].Denied
			}
			assert.InDelta(t, float64(want), sum, 0, "all are in bars")
		}
		axis := times.FindAllStringSubmatch(page, -1)
		assert.True(t, len(axis) >= 1 && len(axis) <= 7, "a time axis with %d marks, of traffic of up to %v", len(axis), time.Duration(most)*time.Second)
	}
}

var yamls = regexp.MustCompile(`(?s)<pre[^>]*>(.*?)</pre>`)

// What a card has to copy is YAML of a policy file. With it in place of the
// limits that were tried, what the card promises is so, and what a log can't be
// played through is still there.
func TestRemediesArePolicyFiles(t *testing.T) {
	log := head + requests("192.0.2.1", 0, 40, 1) + requests("192.0.2.2", 0, 9, 0)
	for _, limits := range [][]string{
		{"5/min"}, {"5/min burst 7"}, {"10/day aligned"}, {"5/min", "12/h"}, {`5/min name "per # day: [x]"`, "3 at once name slots"}, {"5/min", "20/month in Europe/Berlin", "3 at once hold 30s name slots"},
	} {
		given := core.Policy{Name: "api"}
		for _, text := range limits {
			given.Limits = append(given.Limits, limit(t, text))
		}
		r := reported(t, log, replay.Options{Key: "ip"}, given)
		found := yamls.FindAllStringSubmatch(html(t, r), -1)
		require.NotEmpty(t, found, limits)
		require.Len(t, found, len(r.Outcomes[0].Search.Changes))
		for i, text := range found {
			yaml := strings.NewReplacer("&#34;", `"`, "&#43;", "+", "&amp;", "&").Replace(text[1])
			policies, err := policyfile.Load(strings.NewReader("policies:\n- name: api\n  " + strings.ReplaceAll(yaml, "\n", "\n  ")))
			require.NoError(t, err, yaml)
			require.Len(t, policies["api"].Limits, len(limits))
			for j, l := range policies["api"].Limits {
				l.Capacity, l.RefillRate = given.Limits[j].Capacity, given.Limits[j].RefillRate
				assert.Equal(t, given.Limits[j].String(), l.String(), "only numbers change")
			}
			again := reported(t, log, replay.Options{Key: "ip"}, policies["api"])
			assert.Equal(t, r.Outcomes[0].Search.Changes[i].Denied, again.Outcomes[0].Denied, yaml)
			assert.Less(t, again.Outcomes[0].Denied, r.Outcomes[0].Denied, yaml)
		}
	}
}

// The change of a plan is in the plan.
func TestRemediesOfPlansArePlans(t *testing.T) {
	log := head + strings.ReplaceAll(requests("192.0.2.1", 0, 9, 0), ",\n", ",pro\n")
	given := core.Policy{Name: "api", Limits: []core.Limit{limit(t, "1/min name minute")}, Plans: map[string][]core.Limit{"pro": {limit(t, "5/min name minute"), limit(t, "2 at once name slots")}}}
	page := html(t, reported(t, log, replay.Options{Key: "ip", Plan: "tier"}, given))
	found := yamls.FindStringSubmatch(page)
	require.NotNil(t, found)
	policies, err := policyfile.Load(strings.NewReader("policies:\n- name: api\n  limits: [1/min name minute]\n  " + strings.ReplaceAll(strings.ReplaceAll(found[1], "&#34;", `"`), "\n", "\n  ")))
	require.NoError(t, err, found[1])
	assert.Len(t, policies["api"].Plans["pro"], 2)
	assert.Greater(t, policies["api"].Plans["pro"][0].Capacity, int64(5))
}
