package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limitdraw"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// quota is a bucket on a calendar, written from the documentation: it knows
// when its periods begin, and counts.
type quota struct {
	begins   []int64 // of the periods, µs since 1970
	capacity int64
	rate     int64 // tokens that come with each, at most the capacity
	tokens   int64
	now      int
}

// boundary is when a clock in a location first shows a time or a later one:
// where clocks are set forward past it, that instant.
func boundary(year int, month time.Month, day, hour, minute int, location *time.Location) int64 {
	shows := func(t time.Time) time.Time {
		t = t.In(location)
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	want := time.Date(year, month, day, hour, minute, 0, 0, time.UTC)
	_, ahead := want.In(location).Zone()
	at := want.Add(-time.Duration(ahead)*time.Second - 3*time.Hour)
	if !shows(at).Before(want) {
		at = want.Add(-51 * time.Hour)
	}
	for shows(at).Before(want) {
		step := 15 * time.Minute
		next := at.Add(step)
		_, zone := at.In(location).Zone()
		if _, after := next.In(location).Zone(); after != zone || !shows(next).Before(want) {
			step = time.Minute // clocks may be set at a minute past the hour
		}
		at = at.Add(step)
	}
	return at.UnixMicro()
}

// periods are limits, and when their periods begin on or after a day and before
// another.
var periods = map[string]struct {
	limit  core.Limit
	begins func(day time.Time) (hour, minute int, begins bool)
}{
	"days": {core.PerDay(1), func(time.Time) (int, int, bool) { return 0, 0, true }},
	"days from 2:30": {core.PerDay(1).Anchored(time.Date(2024, time.May, 7, 2, 30, 0, 0, time.UTC)),
		func(time.Time) (int, int, bool) { return 2, 30, true }},
	"weeks": {core.PerWeek(1), func(day time.Time) (int, int, bool) { return 0, 0, day.Weekday() == time.Monday }},
	"weeks from Saturday noon": {core.PerWeek(1).Anchored(time.Date(2023, time.July, 8, 12, 0, 0, 0, time.UTC)),
		func(day time.Time) (int, int, bool) { return 12, 0, day.Weekday() == time.Saturday }},
	"months":               {core.PerMonth(1), func(day time.Time) (int, int, bool) { return 0, 0, day.Day() == 1 }},
	"months from the 29th": {core.PerMonth(1).Anchored(time.Date(2024, time.January, 29, 0, 0, 0, 0, time.UTC)), fromThe(29)},
	"months from the 30th": {core.PerMonth(1).Anchored(time.Date(2024, time.January, 30, 0, 0, 0, 0, time.UTC)), fromThe(30)},
	"months from the 31st": {core.PerMonth(1).Anchored(time.Date(2024, time.January, 31, 0, 0, 0, 0, time.UTC)), fromThe(31)},
	"quarters": {core.Limit{Capacity: 1, RefillRate: 1, RefillInterval: 3 * core.Month, Mode: core.Aligned},
		func(day time.Time) (int, int, bool) { return 0, 0, day.Day() == 1 && day.Month()%3 == 1 }},
}

// fromThe tells on which days months begin that begin on the n-th, or on the
// last day if they have fewer.
func fromThe(n int) func(time.Time) (int, int, bool) {
	return func(day time.Time) (int, int, bool) {
		last := day.AddDate(0, 0, 1).Day() == 1
		return 0, 0, day.Day() == n || last && day.Day() < n
	}
}

// calendarZones have summer time that begins at midnight besides others, on
// both hemispheres.
var calendarZones = append([]string{"America/Santiago", "America/Havana", "Asia/Beirut"}, limitdraw.Zones...)

// begins returns when periods begin in ten years, with 150 of them after the
// last.
func begins(name string, location *time.Location, from int) (list []int64) {
	after := 0
	for day := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC); after < 150; day = day.AddDate(0, 0, 1) {
		if _, _, yes := periods[name].begins(day); yes && day.Year() >= from+10 {
			after++
		}
		if hour, minute, yes := periods[name].begins(day); yes {
			list = append(list, boundary(day.Year(), day.Month(), day.Day(), hour, minute, location))
		}
	}
	return list
}

// move moves the time on to an instant.
func (q *quota) move(at int64) {
	for q.begins[q.now+1] <= at {
		q.now++
		q.tokens = min(q.capacity, q.tokens+q.rate)
	}
}

// retry is how long it takes from an instant until there are n tokens.
func (q *quota) retry(n, at int64) time.Duration {
	if n > q.capacity {
		return core.Never
	}
	lacks := n - q.tokens
	return time.Duration(q.begins[q.now+int((lacks+q.rate-1)/q.rate)]-at) * time.Microsecond
}

// Ten years in each place: a quota admits what its periods bring, to the token,
// and a denial tells to the microsecond when the next period begins that has
// enough.
func TestCalendarsAdmitWhatTheirPeriodsBring(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t)
	client.AddHook(&redistest.Keeper{})
	clock := limittest.NewClock()
	stores := map[string]core.Store{
		"memory": core.NewMemoryStore(core.WithClock(clock.Now)),
		"Redis":  redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), core.WithClock(clock.Now), longTimeout),
	}
	for _, zone := range calendarZones {
		for name := range periods {
			list := begins(name, limitdraw.Zone(zone), 2017)
			for store, s := range stores {
				steps := soak.Budget(20, 300)
				if store == "memory" {
					steps *= 5
				}
				playCalendar(t, s, clock, zone, name, list, store+" "+name+" in "+zone, steps)
			}
		}
	}
}

// periodIn returns a limit whose periods begin on the clocks of a place.
func periodIn(limit core.Limit, location *time.Location) core.Limit {
	limit = limit.In(location)
	if a := limit.Anchor; !a.IsZero() && location != time.UTC {
		limit = limit.Anchored(time.Date(a.Year(), a.Month(), a.Day(), a.Hour(), a.Minute(), 0, 0, location))
	}
	return limit
}

// later draws an instant not before at: just before, onto or just after the
// next period, after the last RetryAfter, or anywhere.
func (q *quota) later(r *rand.Rand, at int64, wait time.Duration) int64 {
	next := q.begins[q.now+1]
	switch r.IntN(6) {
	case 0:
		at = max(at, next-1)
	case 1:
		at = next
	case 2:
		at = max(at, next+r.Int64N(5000)-2500)
	case 3:
		if wait != core.Never {
			at += max(0, wait.Microseconds()-r.Int64N(2))
		}
	case 4:
		at += r.Int64N(3 * (next - q.begins[q.now]))
	}
	return at
}

// playCalendar makes random requests on a new key, and compares each answer
// with the model's.
func playCalendar(t *testing.T, store core.Store, clock *limittest.Clock, zone, name string, list []int64, title string, steps int) {
	t.Helper()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	ctx := context.Background()
	limit := periodIn(periods[name].limit, limitdraw.Zone(zone))
	limit.Capacity = []int64{1, 3, 10, 100}[r.IntN(4)]
	limit.RefillRate = []float64{1, 3, float64(limit.Capacity), 2 * float64(limit.Capacity)}[r.IntN(4)]
	l := limittest.Limiter(t, store, fmt.Sprint("calendar", r.Uint64()), limit)
	q := &quota{begins: list, capacity: limit.Capacity, rate: min(int64(limit.RefillRate), limit.Capacity), tokens: limit.Capacity}
	at := q.begins[0]
	last := time.UnixMicro(at).AddDate(9, 6, 0).UnixMicro()
	wait := time.Duration(0)
	for step := range steps {
		if at = q.later(r, at, wait); at >= last {
			return
		}
		clock.Move(time.UnixMicro(at).Sub(clock.Now()))
		q.move(at)
		n := 1 + r.Int64N(q.capacity+1)
		switch r.IntN(8) {
		case 0: // a debt over up to 40 periods
			if n = r.Int64N(20*q.rate) + 1; q.tokens < -20*q.rate {
				continue
			}
			require.NoError(t, l.Debit(ctx, "k", n))
			q.tokens -= n
			continue
		case 1:
			res, err := l.AllowAtMost(ctx, "k", n)
			require.NoError(t, err)
			got := max(0, min(n, q.tokens))
			if res.Cost != got || res.Allowed != (got > 0) {
				t.Fatalf("%s, seed %d, step %d: at most %d of %+v at %v got %d, want %d", title, seed, step, n, limit, clock.Now(), res.Cost, got)
			}
			q.tokens -= got
			continue
		}
		res, err := l.AllowN(ctx, "k", n)
		require.NoError(t, err)
		allowed, retry := q.tokens >= n, time.Duration(0)
		if allowed {
			q.tokens -= n
		} else {
			retry = q.retry(n, at)
		}
		if res.Allowed != allowed || res.RetryAfter != retry || res.Remaining != max(0, q.tokens) {
			t.Fatalf("%s, seed %d, step %d: %d of %+v at %v: allowed %v, %d left, retry after %v; want %v, %d, %v", title, seed, step, n,
				limit, clock.Now().In(limit.Location), res.Allowed, res.Remaining, res.RetryAfter, allowed, q.tokens, retry)
		}
		wait = res.RetryAfter
	}
}

// farServer is a hook that gives scripts another time than that of the server,
// for a server whose clock is not the process's.
type highLatencyServer struct {
	redistest.Hook
	clock *limittest.Clock
	asked int // scripts
}

func (f *highLatencyServer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "eval") {
			f.asked++
			if now := 4 + args[2].(int); len(args) > now && args[now] == "" {
				args[now] = strconv.FormatInt(f.clock.Now().UnixMicro(), 10)
			}
		}
		return next(ctx, cmd)
	}
}

// The clock of the server decides, however far it is from that of the process:
// which period it is, what a debt is, and how old the stored state is.
func TestCalendarsOfAServerWithAnotherClock(t *testing.T) {
	client := redistest.Client(t)
	far := &highLatencyServer{clock: limittest.NewClock()}
	client.AddHook(&redistest.Keeper{})
	client.AddHook(far)
	store := redisstore.New(client, redisstore.WithPrefix(redistest.Prefix()), redisstore.WithDenyCache(0), longTimeout)
	for zone, from := range map[string]int{"America/Santiago": 2005, "Europe/Berlin": 2045} {
		for name := range periods {
			playCalendar(t, store, far.clock, zone, name, begins(name, limitdraw.Zone(zone), from), "far server, "+name+" in "+zone, soak.Budget(60, 300))
		}
	}
	if decisions := store.Stats().Decisions; int64(far.asked) <= decisions {
		t.Errorf("premise: %d script calls for %d decisions, want more, because the first had too few periods", far.asked, decisions)
	}
}
