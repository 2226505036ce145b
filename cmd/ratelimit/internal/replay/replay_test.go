package replay_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/core"
)

// collect reads a log.
func collect(t testing.TB, log string, o replay.Options) (*replay.Traffic, error) {
	t.Helper()
	c, err := replay.NewCollector(o)
	require.NoError(t, err)
	require.NoError(t, accesslog.Read(strings.NewReader(log), o.Log, func(l *accesslog.Line) error {
		c.Add("log", l)
		return nil
	}, func(b accesslog.Bad) { c.Bad("log", b) }))
	return c.Traffic()
}

// play replays a log through limits.
func play(t testing.TB, log string, o replay.Options, share float64, limits ...core.Limit) *replay.Outcome {
	t.Helper()
	traffic, err := collect(t, log, o)
	require.NoError(t, err)
	out, err := traffic.Play(t.Context(), "x", core.Policy{Name: "x", Limits: limits}, share, func(int) {})
	require.NoError(t, err)
	require.Len(t, out, 1)
	return out[0]
}

// sent is a request of the oracle.
type sent struct {
	at  int64 // ms
	key string
}

const start = int64(1772409600_000)

// randomLog returns requests of clients in the order of their times, and a log
// of them in which lines are out of order by up to 5 s.
func randomLog(seed uint64) (list []sent, log string) {
	r := rand.New(rand.NewPCG(seed, 1))
	clients := 5 + r.IntN(30)
	for range 1500 {
		k := int(float64(clients) * r.Float64() * r.Float64() * r.Float64())
		list = append(list, sent{start + r.Int64N(7_200_000), fmt.Sprintf("192.0.2.%d", k)})
		for r.IntN(3) > 0 {
			list = append(list, sent{list[len(list)-1].at + r.Int64N(400), list[len(list)-1].key})
		}
	}
	slices.SortStableFunc(list, func(a, b sent) int { return int(a.at - b.at) })
	mixed := slices.Clone(list)
	late := make(map[sent]int64)
	for _, s := range mixed {
		late[s] = s.at + r.Int64N(5_000)
	}
	slices.SortStableFunc(mixed, func(a, b sent) int { return int(late[a] - late[b]) })
	var b strings.Builder
	b.WriteString("time,ip\n")
	for _, s := range mixed {
		fmt.Fprintf(&b, "%d.%03d,%s\n", s.at/1000, s.at%1000, s.key)
	}
	return list, b.String()
}

// oracle is a token bucket in exact fractions, which knows nothing of the
// library. It returns denied requests by client and by hour, and the longest
// denial.
func oracle(list []sent, capacity int64, perMS *big.Rat) (byKey map[string]int64, byHour map[int64]int64, longest *big.Rat) {
	type state struct {
		tokens *big.Rat
		at     int64
		since  int64 // of the first of the denials under way; 0: none
		ends   *big.Rat
	}
	buckets := make(map[string]*state)
	byKey, byHour, longest = make(map[string]int64), make(map[int64]int64), new(big.Rat)
	one, full := big.NewRat(1, 1), big.NewRat(capacity, 1)
	end := func(b *state, at *big.Rat) {
		if b.since > 0 {
			if b.ends.Cmp(at) < 0 { // the client came back later than it could
				at = b.ends
			}
			if length := new(big.Rat).Sub(at, big.NewRat(b.since, 1)); length.Cmp(longest) > 0 {
				longest = length
			}
		}
		b.since = 0
	}
	for _, s := range list {
		b := buckets[s.key]
		if b == nil {
			b = &state{tokens: new(big.Rat).Set(full), at: s.at}
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
		byKey["ip:"+s.key]++
		byHour[s.at/3_600_000]++
		if b.since == 0 {
			b.since = s.at
		}
		wait := new(big.Rat).Sub(one, b.tokens)
		b.ends = wait.Quo(wait, perMS)
		b.ends.Add(b.ends, big.NewRat(s.at, 1))
	}
	for _, b := range buckets {
		end(b, b.ends)
	}
	return byKey, byHour, longest
}

// What is denied, by client and by hour, the longest denial, and the smallest
// changes are those of a bucket that is computed without the library.
func TestReplayAgreesWithAnOracle(t *testing.T) {
	for seed := range uint64(6) {
		list, log := randomLog(seed)
		const capacity, perMinute = 4, 12
		rate := big.NewRat(perMinute, 60_000)
		byKey, byHour, longest := oracle(list, capacity, rate)
		out := play(t, log, replay.Options{Key: "ip"}, 0.8, core.PerMinute(perMinute).WithBurst(capacity))

		total := int64(0)
		for _, n := range byKey {
			total += n
		}
		require.Positive(t, total, "the premise: some are denied")
		require.Equal(t, total, out.Denied, "seed %d: denied requests", seed)
		require.Equal(t, []int64{total}, out.ByLimit)
		require.EqualValues(t, len(byKey), out.Clients, "seed %d: clients denied", seed)
		for i, c := range out.Top {
			require.Equal(t, byKey[c.Key], c.Denied, "seed %d: denied requests of %s", seed, c.Key)
			require.True(t, i == 0 || out.Top[i-1].Denied >= c.Denied, "those denied most come first")
		}
		for _, h := range out.Hours {
			require.Equal(t, byHour[h.Start/3_600_000_000], h.Denied, "seed %d: denied requests by hour", seed)
		}
		want, _ := longest.Float64()
		require.InDelta(t, want, float64(out.Longest.Length().Microseconds())/1000, 0.002, "seed %d: the longest denial, in ms", seed)
		smallestChanges(t, list, out, capacity, perMinute)
	}
}

// smallestChanges tries the changes, and those that are a little smaller, with
// the oracle.
func smallestChanges(t *testing.T, list []sent, out *replay.Outcome, capacity, perMinute int64) {
	t.Helper()
	enough := func(capacity int64, perMS *big.Rat) bool {
		byKey, _, _ := oracle(list, capacity, perMS)
		return int64(len(byKey)) <= out.Search.Most
	}
	found := make(map[string]core.Limit)
	for _, c := range out.Search.Changes {
		found[c.What] = c.Limits[0]
	}
	burst := found["burst"].Capacity
	require.True(t, enough(burst, big.NewRat(perMinute, 60_000)), "a burst of %d must be enough", burst)
	require.False(t, enough(burst-1, big.NewRat(perMinute, 60_000)), "a burst of %d must be the smallest that is enough", burst)
	rate, known := found["rate"]
	percent := int64(math.Round(rate.RefillRate * 100 / float64(perMinute)))
	if !known {
		require.False(t, enough(capacity, big.NewRat(perMinute*10_000, 60_000)), "no rate must be enough")
		return
	}
	require.True(t, enough(capacity, big.NewRat(perMinute*percent, 6_000_000)), "a rate of %v must be enough", rate)
	require.False(t, enough(capacity, big.NewRat(perMinute*(percent-1), 6_000_000)), "a rate of %v must be the smallest that is enough, to 1 %%", rate)
}

func TestPoliciesDecideAsTheLibraryDoes(t *testing.T) {
	line := func(at, ip string) string { return "2026-03-02 " + at + "," + ip + "\n" }
	head := "time,ip\n"
	day := head + line("23:59:58", "192.0.2.1") + line("23:59:59", "192.0.2.1") + "2026-03-03 00:00:00,192.0.2.1\n" + line("12:00:00", "192.0.2.9")
	out := play(t, day, replay.Options{Key: "ip"}, 1, core.Must(core.ParseLimit("1/day aligned")))
	assert.EqualValues(t, 1, out.Denied, "a quota begins anew at midnight")
	assert.Equal(t, time.Second, out.Longest.Length())
	assert.Equal(t, "quota", out.Search.Changes[0].What)
	assert.EqualValues(t, 2, out.Search.Changes[0].Limits[0].Capacity)

	steps := head + line("00:00:50", "192.0.2.1") + line("00:01:20", "192.0.2.1") + line("00:01:50", "192.0.2.1")
	out = play(t, steps, replay.Options{Key: "ip"}, 1, core.Must(core.ParseLimit("1/min stepped")))
	assert.EqualValues(t, 1, out.Denied, "steps count from the first use")

	six := head + line("00:00:00", "2001:db8::1") + line("00:00:00", "2001:db8::2") + line("00:00:00", "2001:db8:0:1::1") + line("00:00:01", "nobody") + line("00:00:01", "-")
	traffic, err := collect(t, six, replay.Options{Key: "ip"})
	require.NoError(t, err)
	assert.Equal(t, []string{"ip:2001:db8::/64", "ip:2001:db8:0:1::/64"}, traffic.Keys)
	assert.EqualValues(t, 2, traffic.Keyless.Count)
	assert.Equal(t, 5, traffic.Keyless.Line)

	p := core.Policy{Name: "x", Shadow: true, Limits: []core.Limit{core.PerMinute(1), core.InFlight(1)}, Overrides: map[string][]core.Limit{"ip:2001:db8::/64": {core.PerMinute(5)}}}
	outs, err := traffic.Play(t.Context(), "x", p, 1, func(int) {})
	require.NoError(t, err)
	out = outs[0]
	assert.Zero(t, out.Denied, "the override holds")
	assert.Len(t, out.Notes, 2, "shadow mode and slots: %v", out.Notes)
	p.Limits = p.Limits[1:]
	_, err = traffic.Play(t.Context(), "x", p, 1, func(int) {})
	require.ErrorContains(t, err, "no limit that a log can be replayed through")
}

func TestCostsUnitsAndFilters(t *testing.T) {
	log := `{"time":1772452800,"user":"ann","path":"/api/a","cost":3,"used":700}
{"time":1772452801,"user":"ann","path":"/api/b","cost":3,"used":400}
{"time":1772452801,"user":"bob","path":"/health","cost":1,"used":1}
{"time":1772452802,"user":"bob","path":"/api/a","cost":-1,"used":1}
{"time":1772452803,"user":"bob","path":"/api/a","cost":50,"used":1,"status":429}
`
	only := []string{"path=/api/*"}
	out := play(t, log, replay.Options{Key: "user", Cost: "cost", Only: only}, 1, core.PerHour(5))
	assert.EqualValues(t, 2, out.Denied, "ann's second one lacks tokens, and bob's costs too much")
	assert.EqualValues(t, 1, out.Never, "50 never fit into 5")
	assert.Equal(t, "user:ann", out.Top[0].Key)

	o := replay.Options{Key: "user", Units: map[string]string{"tokens": "used"}, Only: only, Skip: []string{"status=429"}}
	out = play(t, log, o, 1, core.Must(core.ParseLimit("1000 tokens/hour")))
	assert.EqualValues(t, 1, out.Denied, "700 and 400 are more than 1,000")
	burst := slices.IndexFunc(out.Search.Changes, func(c replay.Change) bool { return c.What == "burst" })
	require.GreaterOrEqual(t, burst, 0)
	assert.EqualValues(t, 1100, out.Search.Changes[burst].Limits[0].Capacity, "all that ann takes, because less than a token comes back in a second")
	traffic, err := collect(t, log, o)
	require.NoError(t, err)
	assert.EqualValues(t, 2, traffic.Left)
	_, err = traffic.Play(t.Context(), "x", core.Policy{Name: "x", Limits: []core.Limit{core.PerHour(5)}}, 1, func(int) {})
	require.ErrorContains(t, err, "no limit of policy")
}

func TestKeysAreThoseOfTheAdapters(t *testing.T) {
	log := "time,ip,api_key,path,method,tenant\n1772452800,192.0.2.1,k:1,/a?k=v%20w,GET,t1\n"
	for spec, want := range map[string]string{
		"ip": "ip:192.0.2.1", "header:X-Api-Key=api_key": "header:x-api-key:k%3A1", "header:api-key": "header:api-key:k%3A1", "path": "path:/a", "method": "method:GET",
		"query:k": "query:k:v w", "tenant": "tenant:t1", "param:tenant": "param:tenant:t1", "global:all": "global:all",
		"tenant+path": core.JoinKey("tenant:t1", "path:/a"), "ip=tenant": "",
	} {
		traffic, err := collect(t, log, replay.Options{Key: spec})
		if want == "" {
			assert.ErrorIs(t, err, replay.ErrNothing, spec)
			continue
		}
		require.NoError(t, err, spec)
		assert.Equal(t, []string{want}, traffic.Keys, spec)
	}
	peers := "time,ip\n1,192.0.2.1:4711\n2,192.0.2.1\n3,[2001:db8::1]:443\n4,2001:db8::1:443\n5,192.0.2.1:x\n"
	traffic, err := collect(t, peers, replay.Options{Key: "ip"})
	require.NoError(t, err)
	assert.Equal(t, []string{"ip:192.0.2.1", "ip:2001:db8::/64"}, traffic.Keys, "ports are no part of a key")
	assert.EqualValues(t, 1, traffic.Keyless.Count)
	for _, spec := range []string{"", "ip+", "header:x=", "heder:x", "header:bad name=x"} {
		_, err := replay.NewCollector(replay.Options{Key: spec})
		assert.Error(t, err, spec)
	}
	for _, o := range []replay.Options{{Key: "ip", Only: []string{"path"}}, {Key: "ip", Skip: []string{"=x"}}} {
		_, err := replay.NewCollector(o)
		assert.ErrorContains(t, err, "FIELD=PATTERN")
	}
}

// BenchmarkMillionLines reads a million lines in the combined format and
// replays them, with the search for changes.
func BenchmarkMillionLines(b *testing.B) {
	var log strings.Builder
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 1_000_000 {
		at := time.Unix(1772409600+int64(i/12), 0).UTC().Format("02/Jan/2006:15:04:05 -0700")
		fmt.Fprintf(&log, "10.0.%d.%d - - [%s] \"GET /api/items/%d HTTP/1.1\" 200 512 \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n", r.IntN(4), r.IntN(1+r.IntN(255)), at, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		out := play(b, log.String(), replay.Options{Key: "ip"}, 0.999, core.PerMinute(6).WithBurst(3))
		if out.Denied == 0 || len(out.Search.Changes) == 0 {
			b.Fatal("the premise: some are denied")
		}
	}
}
