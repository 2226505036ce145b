package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// statePolicies are limits under which the tests read the same stored bytes:
// one limit, several modes, the largest capacity, and more limits than an
// answer holds without allocating.
var statePolicies = [][]core.Limit{
	{core.PerMinute(17)},
	{core.PerMinute(10).WithMode(core.Stepped), core.PerDay(1000).WithMode(core.Aligned), core.PerHour(99)},
	{{Capacity: 999_999_999_999_999, RefillRate: 1e6, RefillInterval: time.Second}},
	{core.PerSecond(1), core.PerMinute(2), core.PerHour(3), core.PerDay(4), core.PerSecond(5).WithName("five"), core.PerHour(6).WithName("six")},
}

// recordSize is what a record takes as bytes, without what is cut from it.
const recordSize = bucket.RecordSize

// record is a limit's level as stored, and what is cut from it if tokens is not
// 0. Unlike bucket.Record it can have any numbers that fit.
type record struct {
	tag                        uint32
	steps                      uint16
	mode                       byte
	capacity, unit, gain, step uint64
	units                      int64
	at, keep                   uint64
	tokens                     float64
	base                       uint64
}

// bytes returns r as it is stored.
func (r record) bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, r.tag)
	b = append(binary.BigEndian.AppendUint16(b, r.steps), r.mode)
	seven := func(numbers ...uint64) {
		for _, n := range numbers {
			b = append(b, binary.BigEndian.AppendUint64(nil, n)[1:]...)
		}
	}
	seven(r.capacity, r.unit, r.gain, r.step, uint64(r.units+bucket.ZeroUnits), r.at, r.keep)
	if r.tokens != 0 {
		b = binary.BigEndian.AppendUint32(b, r.tag)
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(r.tokens))
		seven(r.base)
	}
	return b
}

// readRecords returns the records in a state that a store wrote, from which
// nothing is cut.
func readRecords(t testing.TB, state []byte) (list []record) {
	t.Helper()
	if len(state)%recordSize != 0 {
		t.Fatalf("premise: a record takes %d bytes, and state has %d", recordSize, len(state))
	}
	for ; len(state) > 0; state = state[recordSize:] {
		var numbers [7]uint64
		for i := range numbers {
			numbers[i] = binary.BigEndian.Uint64(append([]byte{0}, state[7+7*i:14+7*i]...))
		}
		list = append(list, record{
			tag: binary.BigEndian.Uint32(state), steps: binary.BigEndian.Uint16(state[4:]), mode: state[6], capacity: numbers[0], unit: numbers[1],
			gain: numbers[2], step: numbers[3], units: int64(numbers[4]) - bucket.ZeroUnits, at: numbers[5], keep: numbers[6],
		})
		if b := list[len(list)-1].bytes(); string(b) != string(state[:recordSize]) {
			t.Fatalf("premise: the test reads records as they are stored: %x became %x", state[:recordSize], b)
		}
	}
	return list
}

// concat returns the state of records.
func concat(records ...record) (state []byte) {
	for _, r := range records {
		state = append(state, r.bytes()...)
	}
	return state
}

// writtenState is what a store keeps of a policy after its first request. Its
// tags, steps and fills are real.
func writtenState(t testing.TB, now time.Time, limits []core.Limit) []byte {
	t.Helper()
	s := limittest.NewDecidingStore(func() time.Time { return now })
	if _, err := limittest.Limiter(t, s, "api", limits...).Allow(context.Background(), "user"); err != nil {
		t.Fatal(err)
	}
	return s.States[core.JoinKey("api", "user")]
}

const forever = 1 << 53 // no instant is as large

var (
	nan, inf    = math.NaN(), math.Inf(1)
	nastyTokens = []float64{0.5, -0.5, 1, -1, 3, 1e15, -1e15, 1 << 50, 1 << 53, 1<<53 + 2, 1e300, -1e300, math.SmallestNonzeroFloat64, inf, -inf, nan, 1.0 / 3}
	nastyUnits  = []int64{0, 1, -1, 1 << 30, 1 << 50, -(1 << 50), 1<<51 - 1, 1 << 51, -(1 << 51), 1<<52 - 1, 1 << 52, -(1 << 52), 1 << 53}
	nastySizes  = []uint64{0, 1, 2, 1 << 30, 1 << 50, 1<<50 + 1, 1 << 52, 1<<53 - 1, 1 << 53, 1<<56 - 1}
)

// nastyInstants are instants around now and at the ends of what seven bytes
// hold and of what the store accepts.
func nastyInstants(now time.Time) []uint64 {
	n := uint64(now.UnixMicro())
	return []uint64{0, 1, n - 60e6, n - 1, n, n + 1, n + 60e6, forever - 1, forever, forever + 1, forever + 2, 1<<56 - 1}
}

// nastyStates are states that no version of the library wrote, or that another
// policy or another clock left behind.
func nastyStates(t testing.TB, now time.Time) [][]byte {
	t.Helper()
	states := [][]byte{{}, {0}, []byte("hello"), make([]byte, recordSize-1), make([]byte, recordSize), make([]byte, recordSize+1),
		make([]byte, 2*recordSize), make([]byte, 100*recordSize), []byte(strings.Repeat("\xff", recordSize)), []byte(strings.Repeat("\x7f", 2*recordSize))}
	add := func(records ...record) { states = append(states, concat(records...)) }
	for _, limits := range statePolicies[:2] {
		state := writtenState(t, now, limits)
		levels := readRecords(t, state)
		first, rest := levels[0], levels[1:]
		// Lists of records: cut, of odd length, doubled, reversed.
		states = append(states, state, state[:len(state)-1], state[1:], append(slices.Clip(state), 0))
		for n := 1; n < recordSize; n += 5 {
			states = append(states, state[:n])
		}
		add(slices.Concat(levels, levels)...)
		reversed := slices.Clone(levels)
		slices.Reverse(reversed)
		add(reversed...)
		add(first, first)
		add(slices.Concat([]record{first}, rest, []record{first})...) // a tag comes a second time, after another
		add(slices.Concat([]record{{}}, levels)...)
		add(slices.Concat(levels, []record{{}})...)

		states = append(states, nastyLevels(now, levels)...)
		states = append(states, nastyOthers(now, levels)...)
	}
	return states
}

// nastyLevels are states in which one field of the first of levels is unusual
// or wrong.
func nastyLevels(now time.Time, levels []record) (states [][]byte) {
	first, rest := levels[0], levels[1:]
	add := func(records ...record) { states = append(states, concat(records...)) }
	// change replaces the first level by one that differs, alone, among the
	// others, and behind them.
	change := func(f func(*record)) {
		r := first
		f(&r)
		add(r)
		add(slices.Concat([]record{r}, rest)...)
		add(slices.Concat(rest, []record{r})...)
	}
	for _, tag := range []uint32{0, 1, first.tag + 1, math.MaxUint32} {
		change(func(r *record) { r.tag = tag })
	}
	for _, steps := range []uint16{0, 1, first.steps + 1, math.MaxUint16} {
		change(func(r *record) { r.steps = steps })
	}
	for _, units := range nastyUnits {
		change(func(r *record) { r.units = units })
		for _, at := range nastyInstants(now) {
			r := first
			r.units, r.at = units, at
			add(slices.Concat([]record{r}, rest)...)
		}
	}
	for _, at := range nastyInstants(now) {
		change(func(r *record) { r.at = at })
		for _, keep := range nastyInstants(now) {
			r := first
			r.at, r.keep = at, keep
			add(slices.Concat([]record{r}, rest)...)
		}
	}
	for mode := range byte(5) {
		change(func(r *record) { r.mode = mode })
	}
	for _, size := range nastySizes {
		change(func(r *record) { r.capacity = size })
		change(func(r *record) { r.unit = size })
		change(func(r *record) { r.gain = size })
		change(func(r *record) { r.step = size })
		change(func(r *record) { r.tokens, r.base = 3, size })
		change(func(r *record) { r.capacity, r.units = size, -1e9 })
	}
	for _, tokens := range nastyTokens {
		change(func(r *record) { r.tokens = tokens })
		change(func(r *record) { r.tokens, r.units, r.base = tokens, 0, 7 })
		change(func(r *record) { r.tokens, r.capacity = tokens, 3 })
	}
	return states
}

// nastyOthers are states with records of limits that no policy has.
func nastyOthers(now time.Time, levels []record) (states [][]byte) {
	n := uint64(now.UnixMicro())
	other := record{tag: 5, capacity: 9, unit: 1 << 20, gain: 1, step: 1, at: n, keep: n + 60e6}
	others := func(count int, keep uint64) (list []record) {
		for i := range count {
			r := other
			r.tag, r.keep = uint32(1000+i), keep
			list = append(list, r)
		}
		return list
	}
	change := func(f func(*record)) []record {
		r := other
		f(&r)
		return []record{r}
	}
	for _, list := range [][]record{
		others(1, n), others(1, n+1), others(1, forever-1), others(1, forever), others(1, 0),
		others(256, n+60e6), others(257, n+60e6), others(257, n), others(1000, n-1),
		slices.Concat(others(256, n+60e6), change(func(r *record) { r.keep = n - 1 })),
		slices.Concat(others(2, n+60e6), others(1, n+60e6)), // one of them twice
		change(func(r *record) { r.tokens = 3 }), change(func(r *record) { r.tokens = nan }), change(func(r *record) { r.capacity = 0 }),
		change(func(r *record) { r.at, r.keep = 1<<56-1, 0 }), change(func(r *record) { r.tag = 0 }),
	} {
		states = append(states, concat(list...), concat(slices.Concat(levels, list)...), concat(slices.Concat(list, levels)...))
	}
	return states
}

// sane checks what any decision must satisfy, whatever was stored.
func sane(t testing.TB, limits []core.Limit, cost int64, res core.Result) {
	t.Helper()
	if res.Allowed && res.RetryAfter != 0 || !res.Allowed && res.RetryAfter < time.Microsecond {
		t.Errorf("allowed %v with RetryAfter %v", res.Allowed, res.RetryAfter)
	}
	if res.ResetAfter < 0 {
		t.Errorf("ResetAfter %v is negative", res.ResetAfter)
	}
	for i, limit := range res.Limits() {
		if limit.Remaining < 0 || limit.Remaining > limits[i].Capacity {
			t.Errorf("limit %d has %d tokens left, want from 0 to its capacity, %d", i, limit.Remaining, limits[i].Capacity)
		}
		if res.Allowed && limit.Remaining > limits[i].Capacity-cost {
			t.Errorf("limit %d has %d of %d tokens left after a cost of %d", i, limit.Remaining, limits[i].Capacity, cost)
		}
	}
}

// farAway is longer than any delay of a bucket that a store wrote. Instants so
// far away may not fit stored state, so they are cut, and then steps no longer
// count from the same instant everywhere.
const highLatency = 200 * 365 * 24 * time.Hour

// FuzzDecide reads arbitrary stored bytes. Decide must return an error and
// leave the bytes alone, or decide soundly.
func FuzzDecide(f *testing.F) {
	now := limittest.NewClock().Now()
	for _, state := range nastyStates(f, now) {
		f.Add(state, now.UnixMicro(), uint8(1))
	}
	f.Add(make([]byte, recordSize), int64(0), uint8(0))
	f.Add(make([]byte, recordSize), int64(-1), uint8(1))
	f.Add(make([]byte, recordSize), int64(math.MaxInt64), uint8(1))
	f.Add(make([]byte, recordSize), int64(1<<53), uint8(200))
	f.Fuzz(func(t *testing.T, state []byte, micros int64, n uint8) {
		ctx, cost := t.Context(), int64(n)
		at := time.UnixMicro(micros)
		for i, limits := range statePolicies {
			s := limittest.NewDecidingStore(func() time.Time { return at })
			l := limittest.Limiter(t, s, "api", limits...)
			address := core.JoinKey("api", "user")
			s.States[address] = append([]byte{}, state...)
			res, err := l.AllowN(ctx, "user", cost)
			if err != nil {
				if !errors.Is(err, core.ErrUnavailable) {
					t.Errorf("unreadable state is %v, want ErrUnavailable", err)
				}
				if string(s.States[address]) != string(state) {
					t.Errorf("policy %d: state that can't be read must be left alone", i)
				}
				continue
			}
			sane(t, limits, cost, res)
			again, err := l.Peek(ctx, "user")
			if err != nil {
				t.Errorf("policy %d: what Decide wrote it can't read: %v", i, err)
			}
			if again.ResetAfter != res.ResetAfter && res.ResetAfter < highLatency || again.Remaining != res.Remaining && res.Allowed {
				t.Errorf("policy %d: a decision left %d tokens, full in %v; read again they are %d, full in %v", i,
					res.Remaining, res.ResetAfter, again.Remaining, again.ResetAfter)
			}
			if r, err := l.Reserve(ctx, "user", cost); err != nil || r.Delay() < 0 {
				t.Errorf("policy %d: Reserve: %v, %v", i, r.Delay(), err)
			} else if err := r.Cancel(ctx); err != nil {
				t.Errorf("policy %d: Cancel: %v", i, err)
			}
			if err := l.Refund(ctx, "user", cost); err != nil {
				t.Errorf("policy %d: Refund: %v", i, err)
			}
			if _, err := l.Peek(ctx, "user"); err != nil {
				t.Errorf("policy %d: what Decide wrote it can't read: %v", i, err)
			}
		}
	})
}

// referenceStore keeps state as bytes and decides by the reference
// implementation in Go: the fast path first, as MemoryStore does.
type referenceStore struct {
	*limittest.DecidingStore

	clock func() time.Time
}

func (s *referenceStore) Do(ctx context.Context, r store.Request) (a store.Answer, err error) {
	address := core.JoinKey(r.Policy(), r.Key())
	records, err := bucket.ParseRecords(nil, s.States[address])
	if err != nil {
		return s.DecidingStore.Do(ctx, r) // without state, or with an error of its own
	}
	if len(records) != len(r.Set.Rates) || !inRange(r.Set.Rates, records) {
		return s.DecidingStore.Do(ctx, r)
	}
	_, write, ok := r.DecideFast(&a, records, s.clock().UnixMicro())
	if !ok {
		return s.DecidingStore.Do(ctx, r)
	}
	if write {
		var state []byte
		for _, each := range records {
			one := readLevel(each)
			state = append(state, one.bytes()...)
		}
		s.States[address] = state
	}
	return a, nil
}

// readLevel is a record from which nothing is cut.
func readLevel(r bucket.Record) record {
	packed := bucket.NewLimitSet([]bucket.Rate{*r.Rate}).Packed
	var numbers [4]uint64
	for i := range numbers {
		numbers[i] = binary.BigEndian.Uint64([]byte("\x00" + packed[7+7*i:14+7*i]))
	}
	return record{r.Rate.Tag, r.Rate.StepsHash, packed[6], numbers[0], numbers[1], numbers[2], numbers[3], r.Units, uint64(r.At), uint64(r.Keep), 0, 0}
}

// inRange reports whether the script decides records on the fast path. It leaves
// the rest to the general branch, which clamps levels and bounds gains. The
// branches differ only if a record's Keep does not follow from its level.
func inRange(rates []bucket.Rate, records []bucket.Record) bool {
	const maxDebt = 1<<51 - 1
	for i, r := range records {
		if r.Units > rates[i].Full || r.Units < -maxDebt || rates[i].Gain > rates[i].Full {
			return false
		}
	}
	return true
}

// readsAlike returns a check that the script and the reference implementation
// in Go answer alike, and write alike, from the same stored bytes. Both may
// return an error, in words of their own. If a delay is farAway, only the
// decision counts.
func readsAlike(t testing.TB) func(fatalf func(string, ...any), state []byte, cost int64) {
	ctx := context.Background()
	client, prefix, clock := redistest.Client(t), redistest.Prefix(), limittest.NewClock()
	client.AddHook(&redistest.Keeper{})
	reference := &referenceStore{limittest.NewDecidingStore(clock.Now), clock.Now}
	store := redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(clock.Now), longTimeout)
	return func(fatalf func(string, ...any), state []byte, cost int64) {
		for _, limits := range statePolicies {
			if err := client.Set(ctx, prefix+"api:user", state, 0).Err(); err != nil {
				fatalf("SET: %v", err)
				return
			}
			reference.States[core.JoinKey("api", "user")] = append([]byte{}, state...)
			same := true // what both wrote
			onScript, onReference := limittest.Limiter(t, store, "api", limits...), limittest.Limiter(t, reference, "api", limits...)
			for _, ask := range []func(*core.Limiter) seen{
				func(l *core.Limiter) seen { return see(l.Peek(ctx, "user")) },
				func(l *core.Limiter) seen { return see(l.AllowN(ctx, "user", cost)) },
				func(l *core.Limiter) seen {
					r, err := l.Reserve(ctx, "user", 1)
					if err != nil {
						return see(core.Result{}, err)
					}
					s := see(r.Result(), nil)
					s.OK, s.Delay = r.OK(), r.Delay()
					if err := r.Cancel(ctx); err != nil {
						s.Err = err.Error()
					}
					return s
				},
				func(l *core.Limiter) seen {
					if err := l.Refund(ctx, "user", 2); err != nil {
						return see(core.Result{}, err)
					}
					return see(l.Peek(ctx, "user"))
				},
			} {
				got, want := ask(onScript), ask(onReference)
				if got.Err != "" && want.Err != "" { // the words may differ
					got, want = seen{}, seen{}
				}
				if got.ResetAfter > highLatency && want.ResetAfter > highLatency {
					same = false
					got, want = seen{Allowed: got.Allowed, Remaining: got.Remaining}, seen{Allowed: want.Allowed, Remaining: want.Remaining}
				}
				if got != want {
					fatalf("the script and the reference implementation must answer alike: stored %d bytes %.72x, cost %d, limits %+v:\nscript %.2000s\n  reference %.2000s", len(state), state, cost, limits,
						fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
					return
				}
			}
			stored := redisstore.StoredState(t, client, prefix+"api:user")
			if want := string(reference.States[core.JoinKey("api", "user")]); same && stored != want {
				fatalf("the script and the reference implementation must write alike: stored %.72x, limits %+v: the script left %.200x, the reference implementation %.200x", state, limits, stored, want)
			}
		}
	}
}

func TestScriptAndReferenceReadTheSameState(t *testing.T) {
	t.Parallel()
	check := readsAlike(t)
	states := nastyStates(t, limittest.NewClock().Now())
	step := soak.Budget(10, 1)
	for i := rand.IntN(step); i < len(states); i += step {
		check(t.Errorf, states[i], int64(i%4))
	}
}

// 2^53+1 is the first number that a double, all that Lua has, can't tell from
// its neighbour.
func TestScriptAndReferenceRefuseTheSameInstants(t *testing.T) {
	check := readsAlike(t)
	check(t.Errorf, record{tag: 1, capacity: 5, unit: 1, gain: 1, step: 1, at: forever + 1, keep: 1}.bytes(), 1)
	check(t.Errorf, record{tag: 1, capacity: 5, unit: 1, gain: 1, step: 1, at: 1, keep: forever + 1}.bytes(), 1)
}

func TestScriptAndReferenceReadTheSameRandomState(t *testing.T) {
	check := readsAlike(t)
	now := limittest.NewClock().Now()
	var levels []record
	for _, limits := range statePolicies {
		levels = append(levels, readRecords(t, writtenState(t, now, limits))...)
	}
	instant := rapid.OneOf(rapid.Uint64Range(uint64(now.UnixMicro())-7200e6, uint64(now.UnixMicro())+7200e6),
		rapid.SampledFrom(nastyInstants(now)), rapid.Uint64Range(0, 1<<56-1))
	tokens := rapid.OneOf(rapid.Float64Range(0, 200), rapid.SampledFrom(nastyTokens), rapid.Float64())
	units := rapid.OneOf(rapid.Int64Range(-1<<51, 1<<50), rapid.Int64Range(-1e8, 1e8), rapid.SampledFrom(nastyUnits))
	size := rapid.OneOf(rapid.Uint64Range(1, 1e6), rapid.SampledFrom(nastySizes))
	rapid.Check(t, func(t *rapid.T) {
		var records []record
		for _, level := range rapid.Permutation(levels).Draw(t, "levels")[:rapid.IntRange(1, 6).Draw(t, "limits")] {
			// Most fields stay real, so that the others are not read in vain.
			for _, field := range rapid.SliceOfN(rapid.IntRange(0, 13), 0, 2).Draw(t, "fields") {
				switch field {
				case 0:
					level.steps = rapid.Uint16().Draw(t, "steps")
				case 1, 2:
					level.units = units.Draw(t, "units")
				case 3, 4:
					level.at = instant.Draw(t, "at")
				case 5, 6:
					level.keep = instant.Draw(t, "keep")
				case 7:
					level.capacity = size.Draw(t, "capacity")
				case 8:
					level.unit = size.Draw(t, "unit")
				case 9:
					level.gain = size.Draw(t, "gain")
				case 10:
					level.step = size.Draw(t, "step")
				case 11:
					level.mode = rapid.ByteRange(0, 3).Draw(t, "mode")
				default:
					level.tokens, level.base = tokens.Draw(t, "cut"), size.Draw(t, "base")
				}
			}
			records = append(records, level)
		}
		check(func(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }, concat(records...), rapid.Int64Range(0, 20).Draw(t, "cost"))
	})
}
