package redisstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// statePolicies read the same stored bytes: one limit, several, and as many as don't fit in line.
var statePolicies = [][]core.Limit{
	{core.PerMinute(17)},
	{core.PerMinute(10).WithMode(core.Stepped), core.PerDay(1000).WithMode(core.Aligned), core.PerHour(99)},
	{{Capacity: 999_999_999_999_999, RefillRate: 1e6, RefillInterval: time.Second}},
	{core.PerSecond(1), core.PerMinute(2), core.PerHour(3), core.PerDay(4), core.PerSecond(5).WithName("five"), core.PerHour(6).WithName("six")},
}

// record is one limit's state as stored.
func record(tag uint16, tokens float64, at uint64) []byte {
	b := binary.BigEndian.AppendUint16(nil, tag)
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(tokens))
	var time [8]byte
	binary.BigEndian.PutUint64(time[:], at)
	return append(b, time[1:]...)
}

// writtenState is what a store keeps of a policy after its first request, so that tags are real.
func writtenState(t testing.TB, now time.Time, limits []core.Limit) []byte {
	s := limittest.NewDecidingStore(func() time.Time { return now })
	if _, err := limittest.Limiter(t, s, "api", limits...).Allow(context.Background(), "user"); err != nil {
		t.Fatal(err)
	}
	return s.States[core.JoinKey("api", "user")]
}

// nastyStates are states that no version of the library wrote, or that time or another policy made
// strange.
func nastyStates(t testing.TB, now time.Time) [][]byte {
	states := [][]byte{{}, {0}, []byte("hello"), make([]byte, 16), make([]byte, 17), make([]byte, 18), make([]byte, 34), make([]byte, 17*100)}
	for _, limits := range statePolicies[:2] {
		state := writtenState(t, now, limits)
		tag := binary.BigEndian.Uint16(state)
		states = append(states, state, state[:len(state)-1], append(state[:len(state):len(state)], 0))
		states = append(states, append(state[:len(state):len(state)], state...)) // every limit twice
		for _, tokens := range []float64{0, math.Copysign(0, -1), 0.5, -0.5, 1, -1, 3, 1e15, -1e15, 1 << 50, -(1 << 50), 1 << 53, -(1 << 53),
			1<<53 + 2, 1e300, -1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 1.0 / 3} {
			for _, at := range []uint64{0, 1, uint64(now.UnixMicro()), uint64(now.UnixMicro()) + 1, uint64(now.UnixMicro()) - 1,
				1 << 53, 1<<53 + 2, 1<<56 - 1, 1<<53 - 1} {
				one := record(tag, tokens, at)
				// Alone, before the state that was written, and after it.
				states = append(states, [][]byte{one, slices.Concat(one, state), slices.Concat(state, one)}[len(states)%3])
			}
		}
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

// FuzzDecide reads arbitrary stored bytes: the answer is an error that leaves them alone, or sound.
func FuzzDecide(f *testing.F) {
	now := limittest.NewClock().Now()
	for _, state := range nastyStates(f, now) {
		f.Add(state, now.UnixMicro(), uint8(1))
	}
	f.Add(make([]byte, 17), int64(0), uint8(0))
	f.Add(make([]byte, 17), int64(-1), uint8(1))
	f.Add(make([]byte, 17), int64(math.MaxInt64), uint8(1))
	f.Add(make([]byte, 17), int64(1<<53), uint8(200))
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
			if again.ResetAfter != res.ResetAfter || again.Remaining != res.Remaining && res.Allowed {
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

// readsAlike demands of the script and of Request.Decide the same answers to the same bytes.
func readsAlike(t testing.TB) func(fatalf func(string, ...any), state []byte, cost int64) {
	ctx := context.Background()
	client, prefix, clock := redistest.Client(t), redistest.Prefix(), limittest.NewClock()
	client.AddHook(&redistest.Keeper{})
	twin := limittest.NewDecidingStore(clock.Now)
	store := redisstore.New(client, redisstore.WithPrefix(prefix), core.WithClock(clock.Now), patient)
	return func(fatalf func(string, ...any), state []byte, cost int64) {
		for _, limits := range statePolicies {
			if err := client.Set(ctx, prefix+"api:user", state, 0).Err(); err != nil {
				fatalf("SET: %v", err)
				return
			}
			twin.States[core.JoinKey("api", "user")] = append([]byte{}, state...)
			redis, decide := limittest.Limiter(t, store, "api", limits...), limittest.Limiter(t, twin, "api", limits...)
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
				script, twin := ask(redis), ask(decide)
				if script.Err != "" && twin.Err != "" { // the words may differ
					script, twin = seen{}, seen{}
				}
				if script != twin {
					fatalf("the script and Decide must answer alike: stored %d bytes %.34x, cost %d, limits %+v:\nscript %.200s\nDecide %.200s", len(state), state, cost, limits,
						fmt.Sprintf("%+v", script), fmt.Sprintf("%+v", twin))
					return
				}
			}
			stored, err := client.Get(ctx, prefix+"api:user").Result()
			if want := string(twin.States[core.JoinKey("api", "user")]); err != nil || stored != want {
				fatalf("the script and Decide must write alike: stored %.34x, limits %+v: the script left %x (%v), Decide %x", state, limits, stored, err, want)
			}
		}
	}
}

func TestScriptAndDecideReadTheSameState(t *testing.T) {
	check := readsAlike(t)
	for i, state := range nastyStates(t, limittest.NewClock().Now()) {
		check(t.Errorf, state, int64(i%4))
	}
}

// 2^53+1 is the first number that a double, all that Lua has, can't tell from its neighbour.
func TestScriptAndDecideRefuseTheSameInstants(t *testing.T) {
	readsAlike(t)(t.Errorf, record(1, 5, 1<<53+1), 1)
}

func TestScriptAndDecideReadTheSameRandomState(t *testing.T) {
	check := readsAlike(t)
	now := uint64(limittest.NewClock().Now().UnixMicro())
	var tags []uint16
	for _, limits := range statePolicies {
		state := writtenState(t, limittest.NewClock().Now(), limits)
		for ; len(state) >= 17; state = state[17:] {
			tags = append(tags, binary.BigEndian.Uint16(state))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var state []byte
		for range rapid.IntRange(1, 6).Draw(t, "records") {
			state = append(state, record(
				rapid.SampledFrom(tags).Draw(t, "tag"),
				rapid.OneOf(rapid.Float64Range(-20, 200), rapid.Float64Range(-1e15, 1e15), rapid.Float64()).Draw(t, "tokens"),
				rapid.OneOf(rapid.Uint64Range(now-7200e6, now+7200e6), rapid.Uint64Range(0, 1<<56-1)).Draw(t, "at"))...)
		}
		check(func(format string, args ...any) { t.Fatal(fmt.Sprintf(format, args...)) }, state, rapid.Int64Range(0, 20).Draw(t, "cost"))
	})
}
