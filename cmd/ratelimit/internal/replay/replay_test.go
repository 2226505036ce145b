package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// traffic reads a log.
func traffic(t testing.TB, log string, o replay.Options) *replay.Traffic {
	t.Helper()
	if o.Key == "" {
		o.Key = "ip"
	}
	traffic, err := replay.NewTraffic(o)
	require.NoError(t, err)
	require.NoError(t, traffic.Read(t.Context(), "a.log", strings.NewReader(log)))
	return traffic
}

// replayed replays a log through limits, each on its own.
func replayed(t testing.TB, log string, o replay.Options, limits ...string) *replay.Report {
	t.Helper()
	var policies []replay.Policy
	for _, text := range limits {
		policies = append(policies, replay.Policy{Label: text, Policy: core.Policy{Name: "x", Limits: []core.Limit{core.Must(core.ParseLimit(text))}}})
	}
	report, err := traffic(t, log, o).Replay(t.Context(), policies...)
	require.NoError(t, err)
	return report
}

// outcome replays a log through a policy.
func outcome(t testing.TB, log string, o replay.Options, p core.Policy) *replay.Outcome {
	t.Helper()
	report, err := traffic(t, log, o).Replay(t.Context(), replay.Policy{Policy: p, Label: p.Name})
	require.NoError(t, err)
	return report.Policies[0]
}

func limits(texts ...string) (list []core.Limit) {
	for _, text := range texts {
		list = append(list, core.Must(core.ParseLimit(text)))
	}
	return list
}

// at is a line of a client at a time of 2 March 2026.
func at(clock, ip string) string {
	return fmt.Sprintf(`{"ts":"2026-03-02T%sZ","ip":%q}`+"\n", clock, ip)
}

// sent is a request of the oracle, at a time in ms.
type sent struct {
	at  int64
	key string
}

// randomLog returns requests in the order of their times, and a log of them in
// which lines are out of order by up to 5 s.
func randomLog(seed uint64) (list []sent, log string) {
	r := rand.New(rand.NewPCG(seed, 1))
	clients := 5 + r.IntN(30)
	for range 1500 {
		key := fmt.Sprintf("192.0.2.%d", int(float64(clients)*r.Float64()*r.Float64()*r.Float64()))
		at := 1772409600_000 + r.Int64N(7_200_000)
		for list = append(list, sent{at, key}); r.IntN(3) > 0; list = append(list, sent{at, key}) {
			at += r.Int64N(400)
		}
	}
	slices.SortStableFunc(list, func(a, b sent) int { return int(a.at - b.at) })
	lines := make(map[int64][]string)
	for _, s := range list {
		written := s.at + r.Int64N(5_000)
		lines[written] = append(lines[written], fmt.Sprintf(`{"ts":%d,"ip":%q}`+"\n", s.at, s.key))
	}
	for _, written := range slices.Sorted(maps.Keys(lines)) {
		log += strings.Join(lines[written], "")
	}
	return list, log
}

// oracle is a bucket in exact fractions, which knows nothing of the library. It
// returns the denied requests of each client, and the longest denial in ms.
func oracle(list []sent, capacity, perMinute int64) (denied map[string]int, longest float64) {
	type bucket struct {
		tokens *big.Rat
		at     int64
		from   int64 // of the denial that it is in; 0: none
		until  *big.Rat
	}
	buckets, perMS := make(map[string]*bucket), big.NewRat(perMinute, 60_000)
	denied = make(map[string]int)
	one, full := big.NewRat(1, 1), big.NewRat(capacity, 1)
	end := func(b *bucket, at *big.Rat) {
		if b.from > 0 {
			if b.until.Cmp(at) < 0 {
				at = b.until
			}
			length, _ := new(big.Rat).Sub(at, big.NewRat(b.from, 1)).Float64()
			longest = max(longest, length)
		}
		b.from = 0
	}
	for _, s := range list {
		b := buckets[s.key]
		if b == nil {
			b = &bucket{tokens: new(big.Rat).Set(full), at: s.at}
			buckets[s.key] = b
		}
		b.tokens.Add(b.tokens, new(big.Rat).Mul(perMS, big.NewRat(s.at-b.at, 1)))
		if b.at = s.at; b.tokens.Cmp(full) > 0 {
			b.tokens.Set(full)
		}
		if b.tokens.Cmp(one) >= 0 {
			b.tokens.Sub(b.tokens, one)
			end(b, big.NewRat(s.at, 1))
			continue
		}
		if denied["ip:"+s.key]++; b.from == 0 {
			b.from = s.at
		}
		wait := new(big.Rat).Sub(one, b.tokens)
		b.until = wait.Add(wait.Quo(wait, perMS), big.NewRat(s.at, 1))
	}
	for _, b := range buckets {
		if b.from > 0 {
			end(b, b.until)
		}
	}
	return denied, longest
}

// What is denied, the longest denial and the smallest changes are those of a
// bucket that is computed without the library, whatever the order of the lines.
func TestReplayAgreesWithAnOracle(t *testing.T) {
	for seed := range uint64(6) {
		list, log := randomLog(seed)
		const capacity, perMinute = 4, 12
		denied, longest := oracle(list, capacity, perMinute)
		report := replayed(t, log, replay.Options{}, "12/min burst 4")
		out, sum, periods := report.Policies[0], 0, 0
		for _, n := range denied {
			sum += n
		}
		require.Positive(t, sum, "the premise: some are denied")
		assert.Equal(t, sum, out.Denied, "denied requests")
		assert.Equal(t, map[string]int{"x": sum}, out.ByLimit)
		assert.Len(t, denied, out.DeniedClients, "denied clients")
		for i, c := range out.MostDenied {
			assert.Equal(t, denied[c.Key], c.Denied, "denied requests of %s", c.Key)
			assert.True(t, i == 0 || out.MostDenied[i-1].Denied >= c.Denied, "those denied most come first")
		}
		for _, p := range out.Periods {
			periods += p.Denied
		}
		assert.Equal(t, sum, periods, "all denied requests are in a period")
		assert.InDelta(t, longest, out.Longest.Seconds*1000, 0.002, "the longest denial, in ms")

		enough := func(l core.Limit) bool {
			denied, _ := oracle(list, l.Capacity, int64(l.RefillRate))
			return len(denied) == 0
		}
		require.NotEmpty(t, out.Changes)
		for _, c := range out.Changes {
			l := c.Limits[0]
			assert.True(t, enough(l), "%s spares all clients", l)
			less := l
			if less.Capacity > capacity {
				less.Capacity -= max(1, less.Capacity/50)
			}
			if less.RefillRate > perMinute {
				less.RefillRate -= max(1, math.Trunc(less.RefillRate/50))
			}
			assert.False(t, enough(less), "%s is the smallest change: %s is not enough", l, less)
			assert.Zero(t, c.Denied)
		}
	}
}

// Each of several limits is raised only as far as it must be, and what a
// replayed change promises holds.
func TestEachLimitIsRaisedAsFarAsItMustBe(t *testing.T) {
	log := strings.Repeat(at("12:00:00", "192.0.2.1"), 30)
	for hour := range 24 {
		log += strings.Repeat(at(fmt.Sprintf("%02d:30:00", hour), "192.0.2.2"), 5)
	}
	policy := core.Policy{Name: "api", Limits: limits("10/min burst 20 name minute", "100/day aligned name day", "1000/week", "3 at once name slots")}
	out := outcome(t, log, replay.Options{}, policy)
	assert.Equal(t, 30, out.Denied, "10 above the burst and 20 above the quota")
	assert.Equal(t, map[string]int{"minute": 10, "day": 20}, out.ByLimit)
	require.Len(t, out.Changes, 1, "no rate lets 30 pass at once, and no higher one is needed")
	assert.Equal(t, "10/min burst 30 name minute, 120/day aligned name day, 1000/week, 3 at once name slots", out.Changes[0].String())
	policy.Limits = out.Changes[0].Limits
	assert.Zero(t, outcome(t, log, replay.Options{}, policy).Denied)
}

func TestOneOfAThousandClientsMayStayDenied(t *testing.T) {
	var log strings.Builder
	for client := range 1000 {
		log.WriteString(at("12:00:00", fmt.Sprintf("10.0.%d.%d", client/250, client%250)))
	}
	log.WriteString(strings.Repeat(at("12:00:00", "192.0.2.1"), 50))
	out := replayed(t, log.String(), replay.Options{}, "5/h").Policies[0]
	assert.Equal(t, "5/h denies 45 of 1,050 requests (4.3 %), all from one client.", out.Verdict)
	assert.Equal(t, "It spares 99.9 % of clients as it is.", out.Advice)
	log.WriteString(strings.Repeat(at("12:00:00", "192.0.2.2"), 9))
	out = replayed(t, log.String(), replay.Options{}, "5/h").Policies[0]
	assert.Equal(t, "5/h burst 9 (still denies 41 requests of 1 client)", out.Changes[0].String())
}

// The few clients that may stay denied are as few if several limits deny them.
func TestLimitsShareTheClientsThatMayStayDenied(t *testing.T) {
	var log strings.Builder
	for client := range 2000 {
		log.WriteString(at("12:00:00", fmt.Sprintf("10.0.%d.%d", client/250, client%250)))
	}
	for client := range 4 {
		log.WriteString(strings.Repeat(at("12:00:00", fmt.Sprintf("192.0.2.%d", client)), 6+client)) // at once
		for n := range 30 + 5*client {
			log.WriteString(at(fmt.Sprintf("%02d:%d0:00", n/6, n%6), fmt.Sprintf("192.0.2.1%d", client))) // over hours
		}
	}
	out := outcome(t, log.String(), replay.Options{}, core.Policy{Name: "api", Limits: limits("5/min name minute", "20/day name day")})
	var changes []string
	for _, c := range out.Changes {
		text, _, _ := strings.Cut(c.String(), " (still denies")
		changes = append(changes, text)
		assert.LessOrEqual(t, c.DeniedClients, 2, "%s: 2 of 2,008 clients", c)
	}
	// Two clients that send 8 and 9 at once stay denied. So none of the others
	// may: the last one sends 45 in 7 h 20 min, in which 6 tokens come back.
	assert.Contains(t, changes, "5/min burst 7 name minute, 20/day burst 39 name day")
}

// A stepped limit with a higher rate is full sooner, and its steps then count
// from a later request.
func TestAChangeThatDeniesOtherClientsIsNone(t *testing.T) {
	log := ""
	for _, c := range []struct {
		ip     string
		second int
		times  int
	}{{"192.0.2.1", 0, 4}, {"192.0.2.1", 19, 3}, {"192.0.2.1", 21, 3}, {"192.0.2.2", 0, 4}, {"192.0.2.2", 10, 4}} {
		log += strings.Repeat(at(fmt.Sprintf("12:00:%02d", c.second), c.ip), c.times)
	}
	out := replayed(t, log, replay.Options{}, "3/10s burst 4 stepped").Policies[0]
	require.Equal(t, "ip:192.0.2.2", out.MostDenied[0].Key)
	require.Equal(t, 1, out.DeniedClients, "the premise: the other one is spared")
	require.Equal(t, 1, replayed(t, log, replay.Options{}, "4/10s burst 4 stepped").Policies[0].DeniedClients, "the premise: a higher rate denies it")
	require.NotEmpty(t, out.Changes)
	for _, c := range out.Changes {
		assert.Zero(t, replayed(t, log, replay.Options{}, c.Limits[0].String()).Policies[0].Denied, c)
	}
}

func TestPoliciesDecideAsInAService(t *testing.T) {
	quota := at("23:59:58", "192.0.2.1") + at("23:59:59", "192.0.2.1") + strings.Replace(at("00:00:00", "192.0.2.1"), "03-02", "03-03", 1)
	out := replayed(t, quota, replay.Options{}, "1/day aligned").Policies[0]
	assert.Equal(t, 1, out.Denied, "a quota begins anew at midnight")
	assert.InDelta(t, 1, out.Longest.Seconds, 0)
	assert.Equal(t, "2/day aligned", out.Changes[0].String())
	assert.Len(t, out.Changes, 1, "a quota has one number")

	steps := at("00:00:50", "192.0.2.1") + at("00:01:20", "192.0.2.1") + at("00:01:50", "192.0.2.1")
	assert.Equal(t, 1, replayed(t, steps, replay.Options{}, "1/min stepped").Policies[0].Denied, "steps count from the first use")

	network := at("00:00:00", "2001:db8::1") + at("00:00:00", "2001:db8::2") + at("00:00:00", "2001:db8:0:1::1")
	assert.Equal(t, 1, replayed(t, network, replay.Options{}, "1/min").Policies[0].Denied, "a network of IPv6 is one client")

	policy := core.Policy{
		Name: "api", Shadow: true, Limits: limits("1/min", "1 at once", "10 tokens/min"), Plans: map[string][]core.Limit{"pro": limits("9/min name api-1m")},
		Overrides: map[string][]core.Limit{"ip:192.0.2.1": limits("3/min name api-1m")}, Blocked: []string{"ip:192.0.2.2"},
	}
	log := strings.Repeat(at("00:00:00", "192.0.2.1"), 3) + at("00:00:00", "192.0.2.2") + at("00:00:00", "192.0.2.3")
	out = outcome(t, log, replay.Options{}, policy)
	assert.Equal(t, "api denies 1 of 5 requests (20.0 %), all from one client.", out.Verdict)
	assert.Equal(t, "ip:192.0.2.2", out.MostDenied[0].Key, "overrides and blocks are in force")
	assert.Equal(t, "Their own overrides and blocks deny them, which no change of the limits changes.", out.Advice)
	assert.Len(t, out.Notes, 4, "shadow mode, plans, slots and tokens: %v", out.Notes)
	for _, p := range []core.Policy{{Limits: limits("1 at once")}, {Limits: limits("10 tokens/min")}} {
		require.Error(t, replay.Policy{Policy: p}.Check(), "nothing of it can be replayed")
	}
}

func TestLinesAreChosen(t *testing.T) {
	line := func(ip, request, status string) string {
		return ip + ` - - [02/Mar/2026:12:00:00 +0000] "` + request + ` HTTP/1.1" ` + status + " 1\n"
	}
	log := line("192.0.2.1", "GET /api/a%2Fb?x=1", "200") + line("192.0.2.1", "POST https://example.com/api/b", "429") +
		line("192.0.2.2", "GET /health", "200") + line("203.0.113.7, 10.0.0.5", "GET /api/", "503")
	for _, c := range []struct {
		only, skip []string
		want       int
	}{
		{nil, nil, 4}, {[]string{"path=/api/*"}, nil, 3}, {[]string{"path=*/a/b"}, nil, 1}, {[]string{"path=/api/*", "status=200"}, nil, 1}, {nil, []string{"path=/health*", "status=5*"}, 2},
		{[]string{"ip=203.0.113.*"}, nil, 1}, {[]string{"method=POST"}, []string{"status=404"}, 1}, {nil, []string{"ip=192.0.2.1"}, 2}, {[]string{"path=/api/."}, nil, 0},
	} {
		o := replay.Options{Key: "ip", Trust: []string{"10.0.0.0/8"}, Only: c.only, Skip: c.skip}
		report, err := traffic(t, log, o).Replay(t.Context())
		if c.want == 0 {
			require.ErrorContains(t, err, "4 lines left out as --only and --skip say, the first is a.log:1")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, report.Requests, "%v, without %v", c.only, c.skip)
	}
}

func TestReportsSayWhatWasNotReplayedAndHowTheLogWasRead(t *testing.T) {
	log := at("12:00:00", "192.0.2.1") + "nonsense\n" + at("12:00:01", "nobody") + `{"ts":1772452800,"ip":"192.0.2.1","status":429}` + "\n\n{\n"
	report := replayed(t, log, replay.Options{Skip: []string{"status=500"}}, "1/h")
	notes := strings.Join(report.Notes(), "\n")
	assert.Contains(t, notes, "2 lines left out that can't be read, the first is a.log:2: the line is neither JSON")
	assert.Contains(t, notes, `1 line left out whose client is not known, the first is a.log:3: "nobody" is not an IP address`)
	assert.Contains(t, notes, "the log has 1 request with status 429")
	assert.Contains(t, notes, "whole seconds")
	assert.Equal(t, "2 requests of 1 client, 2026-03-02 12:00:00 to 2026-03-02 12:00:00 UTC", report.Span())
	report = replayed(t, `{"ts":1772452800.5,"ip":"192.0.2.1"}`, replay.Options{}, "1/h")
	assert.Empty(t, report.Notes())
	assert.Equal(t, "1/h denies none of 1 request.", report.Policies[0].Verdict)
}

// A report has at most 121 periods, whatever the log's length, and all requests
// are in one.
func TestPeriodsFitThePage(t *testing.T) {
	for _, length := range []time.Duration{0, time.Second, 2*time.Hour - time.Second, 26 * time.Hour, 90 * 24 * time.Hour, 5 * 365 * 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
		from := time.Date(1971, time.March, 2, 23, 59, 59, 0, time.UTC)
		log := ""
		for _, at := range []time.Time{from, from.Add(length / 3), from.Add(length)} {
			log += fmt.Sprintf(`{"ts":%q,"ip":"192.0.2.1"}`+"\n", at.Format(time.RFC3339Nano))
		}
		periods, sum := replayed(t, log, replay.Options{}, "1/h").Policies[0].Periods, 0
		for _, p := range periods {
			sum += p.Requests
		}
		assert.LessOrEqual(t, len(periods), 121, length)
		assert.Equal(t, 3, sum, length)
	}
}

// What clients send stands on the page as text, and on a terminal without what
// it would obey.
func TestNothingThatClientsSendIsObeyed(t *testing.T) {
	const name = "\x1b[31m\u202e<script>.log"
	log := strings.Repeat(combined("192.0.2.1", `"-" "</title><script>alert(1)</script>\x1b[2J\xe2\x80\xae\"onload=x"`), 5) +
		"\x1b]0;owned\x07<script>bad()</script>\n" + combined("\x1b[2J</style><script>", "")
	tr, err := replay.NewTraffic(replay.Options{Key: "header:user-agent+ip"})
	require.NoError(t, err)
	require.NoError(t, tr.Read(t.Context(), name, strings.NewReader(log)))
	policy := core.Policy{Name: "x", Limits: limits(`1/day name "</style><script>x"`)}
	report, err := tr.Replay(t.Context(), replay.Policy{Policy: policy, Label: "a</h2><script>b"})
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, report.Page(&page))
	assert.Contains(t, page.String(), "&lt;script&gt;alert(1)", "the premise: the path is on the page")
	assert.Contains(t, page.String(), "default-src 'none'")
	assert.Equal(t, 1, strings.Count(page.String(), "</style>"))
	assert.NotContains(t, page.String(), "<script")
	assert.NotRegexp(t, `(src|href)=|@import|url\(`, page.String(), "the page needs no other file")
	var text show.Writer
	report.Text(&text)
	for _, shown := range []string{page.String(), text.String()} {
		assert.NotContains(t, shown, "\x1b")
		assert.NotContains(t, shown, "\u202e")
		assert.NotContains(t, shown, "\x07")
		assert.Contains(t, shown, `\x1b[2J`)
	}
}

func TestThePageHasWhatTheTextHas(t *testing.T) {
	report := replayed(t, strings.Repeat(at("12:00:00", "192.0.2.1"), 9)+"x\n", replay.Options{}, "3/h", "9/h", "5/day aligned")
	var page bytes.Buffer
	require.NoError(t, report.Page(&page))
	var text show.Writer
	report.Text(&text)
	for line := range strings.Lines(text.String()) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			part = strings.TrimPrefix(part, "longest denial: ")
			if part != "denied most:" && !strings.HasSuffix(part, " of 9 requests") {
				assert.Contains(t, page.String(), template.HTMLEscapeString(part))
			}
		}
	}
	assert.Contains(t, page.String(), `6 of 9 denied</title><rect class="all" x="0" width=".8" height="9"/><rect class="denied" x="0" width=".8" height="6"/>`)
}

func TestWhatWasReadBeforeABreakIsReplayed(t *testing.T) {
	tr := traffic(t, at("12:00:00", "192.0.2.1"), replay.Options{})
	err := tr.Read(t.Context(), "b.log", io.MultiReader(strings.NewReader(at("12:00:01", "192.0.2.1")), iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.ErrorAs(t, err, new(*replay.BrokenError))
	require.EqualError(t, err, "the rest of b.log can't be read: unexpected EOF")
	report, err := tr.Replay(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, report.Requests)
}

func TestReplayStopsWhenItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tr := traffic(t, at("12:00:00", "192.0.2.1"), replay.Options{})
	cancel()
	require.ErrorIs(t, tr.Read(ctx, "b.log", strings.NewReader(at("12:00:00", "192.0.2.1"))), context.Canceled)
	_, err := tr.Replay(ctx, replay.Policy{Policy: core.Policy{Name: "x", Limits: limits("1/h")}})
	require.ErrorIs(t, err, context.Canceled)
}

// BenchmarkMillionLines reads a million lines of the combined format and replays
// them, with the search for changes.
func BenchmarkMillionLines(b *testing.B) {
	var log strings.Builder
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 1_000_000 {
		at := time.Unix(1772409600+int64(i/12), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&log, "10.0.%d.%d - - [%s] \"GET /api/items/%d HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n", r.IntN(4), r.IntN(1+r.IntN(255)), at, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		out := replayed(b, log.String(), replay.Options{}, "6/min burst 3").Policies[0]
		if out.Denied == 0 || len(out.Changes) == 0 {
			b.Fatal("the premise: some are denied")
		}
	}
}
