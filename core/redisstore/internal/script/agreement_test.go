package script

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

var (
	seed      = flag.Uint64("agreement.seed", 1, "of the histories")
	histories = flag.Int("agreement.histories", 150, "how many random histories are played")
)

// TestScriptsAndGoAgree plays random histories of requests on a real Redis and
// in Go. Every answer and every stored byte must be the same.
func TestScriptsAndGoAgree(t *testing.T) {
	seen := map[string]int{}
	for h := range *histories {
		newHistory(t, *seed, uint64(h)).play(200, seen)
	}
	for h := range *histories / 20 { // as on a server whose Lua has no struct
		own := newHistory(t, *seed+1, uint64(h))
		own.plainScript, own.fullScript = PlainWithoutStruct, FullWithoutStruct
		own.play(200, seen)
	}
	t.Log(seen)
	for _, kind := range []string{"penalty", "floor granted", "floor denied"} {
		if seen[kind] == 0 {
			t.Errorf("no %s was played", kind)
		}
	}
	for _, action := range []string{"take", "charge", "reserve", "cancel", "extend"} {
		for _, end := range []string{"granted", "denied"} {
			if kind := action + " " + end; seen[kind] == 0 && kind != "charge denied" && kind != "cancel denied" {
				t.Errorf("no %s was played", kind)
			}
		}
	}
}

const begin = 1_800_000_000_000_000 // µs

type history struct {
	*testing.T
	r      *rand.Rand
	rdb    *redis.Client
	prefix string
	now    int64

	plainScript, fullScript *Script

	periods []int64
	// definitions are the versions of one policy.
	definitions []*bucket.LimitSet
	buckets     []*bucket.Bucket // of each key
	expire      [3]int64         // when each key's set of holds does
	holds       []bucket.Request // requests whose holds may be there
	dues        []bucket.Request // reservations; When is their due
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func newHistory(t *testing.T, seed, number uint64) *history {
	r := rand.New(rand.NewPCG(seed, number))
	h := &history{T: t, r: r, rdb: redistest.Client(t), prefix: redistest.Prefix(), now: begin + r.Int64N(1e6), plainScript: Plain, fullScript: Full}
	h.periods = []int64{h.now - 60e6}
	for range 200 {
		h.periods = append(h.periods, h.periods[len(h.periods)-1]+5e5+r.Int64N(5e5))
	}
	allPlain := r.IntN(4) == 0
	for range 1 + r.IntN(3) {
		var limits []bucket.Rate
		plain := allPlain || r.IntN(4) == 0
		for _, tag := range r.Perm(4)[:1+r.IntN(3)] {
			limits = append(limits, randomLimit(r, uint32(tag+1)<<20, plain))
		}
		h.definitions = append(h.definitions, bucket.NewLimitSet(limits))
	}
	for range 3 {
		h.buckets = append(h.buckets, &bucket.Bucket{})
	}
	return h
}

// randomLimit is any limit, of the plain script if plain is set.
func randomLimit(r *rand.Rand, tag uint32, plain bool) bucket.Rate {
	l := bucket.Rate{Tag: tag, Unit: pick[int64](r, 1, 3, 7, 1000, 1<<18, 60e6), Capacity: pick[int64](r, 1, 2, 5, 10, 100, 1e6), Step: pick[int64](r, 1, 10, 1000, 1e6)}
	switch r.IntN(20) { // one can't be computed in the other's units
	case 0:
		l.Unit, l.Capacity = 1, 999_999_999_999_999
	case 1:
		l.Unit, l.Capacity = 1<<43, 5
	}
	l.Full = l.Unit * l.Capacity
	l.Gain = min(l.Full, pick(r, 1, l.Unit, 2*l.Unit, l.Unit*l.Capacity, (l.Unit+2)/3))
	l.Steps = pick(r, bucket.FromUse, bucket.FromUse, bucket.OnClock, bucket.OnCalendar)
	if plain {
		l.Steps = pick(r, bucket.FromUse, bucket.OnClock)
		return l
	}
	switch r.IntN(4) {
	case 0:
		l = bucket.Rate{Tag: tag, Unit: 1, Capacity: 1 + r.Int64N(6), Step: 1, Hold: pick[int64](r, 100, 1e5, 1e6, 2e7)} // slots
		l.Full = l.Capacity
	case 1:
		l.Hold = pick[int64](r, 100, 1e5, 1e6, 2e7) // estimates
	case 2:
		l.Penalty = pick[int64](r, 100, 1e5, 1e6, 1e7)
	}
	if l.Steps == bucket.OnCalendar {
		l.Step, l.Gain = 1e6, max(l.Gain, (l.Full+19)/20)
	}
	return l
}

func (h *history) play(requests int, seen map[string]int) {
	h.Helper()
	for range requests {
		h.now += pick(h.r, 0, 0, 1, h.r.Int64N(100), h.r.Int64N(1e5), h.r.Int64N(2e6))
		if h.r.IntN(15) == 0 {
			h.now -= h.r.Int64N(3e6) // the server's clock is set back
		}
		if h.r.IntN(100) == 0 { // Redis evicts a key
			k := h.r.IntN(3)
			state, holds := h.keys(k)
			h.rdb.Del(ctx, state, holds)
			*h.buckets[k] = bucket.Bucket{}
		}
		for k, at := range h.expire {
			if _, holds := h.keys(k); at <= h.now && len(h.buckets[k].Holds) == 0 {
				h.rdb.Del(ctx, holds)
			}
		}
		r := h.request()
		switch {
		case r.Plain() && h.r.IntN(4) > 0:
			h.plain(r, seen)
		case h.r.IntN(4) > 0:
			h.full([]bucket.Request{r}, h.r.Perm(3)[:1], seen)
		default:
			h.full([]bucket.Request{r, h.request()}, h.r.Perm(3)[:2], seen)
		}
	}
}

// request is any request. Some end holds of earlier ones.
func (h *history) request() bucket.Request {
	r := bucket.Request{Action: bucket.Take, Times: 1, Ticket: h.r.Uint64(), Set: pick(h.r, h.definitions...)}
	each := make([]int64, len(r.Set.Rates))
	r.Each = &each
	switch h.r.IntN(10) {
	case 0, 1:
		r.Action = bucket.Charge
	case 2:
		r.Action, r.When = bucket.Reserve, pick[int64](h.r, 0, 1e5, 1e6, 1e12)
	case 3:
		if len(h.dues) > 0 {
			return pick(h.r, h.dues...)
		}
	case 4, 5:
		if len(h.holds) > 0 {
			r = pick(h.r, h.holds...)
			r.Action = pick(h.r, bucket.Charge, bucket.Extend)
			ends := slices.Clone(*r.Each)
			r.Ends = &ends
			if r.Action == bucket.Charge { // a release, an undo or a settlement
				each := make([]int64, len(ends))
				for i := range each {
					each[i] = h.r.Int64N(4) - 2
				}
				r.Each = &each
			}
			return r
		}
	case 6:
		r.Times = 1 + h.r.Int64N(5)
	}
	for i := range each {
		n := pick(h.r, 1, 1, 1, 0, h.r.Int64N(3), h.r.Int64N(r.Set.Rates[i].Capacity+2))
		if h.r.IntN(100) == 0 {
			n = h.r.Int64N(bucket.MaxUsed / r.Set.Rates[i].Unit) // a debt as deep as there can be
		}
		if r.Action == bucket.Charge {
			n -= h.r.Int64N(4)
		}
		each[i] = n
	}
	if r.Action == bucket.Take && h.r.IntN(5) == 0 {
		floors := make([]int64, len(each))
		for i := range floors {
			floors[i] = pick(h.r, 0, 1, h.r.Int64N(r.Set.Rates[i].Capacity+2), bucket.MaxUsed)
		}
		r.Floors = &floors
	}
	r.Shadow = h.r.IntN(10) == 0
	return r
}

// withStarts adds the starts of periods around now.
func (h *history) withStarts(r *bucket.Request) {
	r.Starts = nil
	for i := range r.Set.Rates {
		l := &r.Set.Rates[i]
		r.Starts = append(r.Starts, nil)
		if l.Steps == bucket.OnCalendar {
			now, _ := slices.BinarySearch(h.periods, h.now+1)
			fill := int((l.Unit*l.Capacity+l.Gain-1)/l.Gain) + h.r.IntN(3)
			r.Starts[i] = h.periods[max(0, now-1-fill):min(len(h.periods), now+1+h.r.IntN(3))]
		}
	}
}

func (h *history) keys(k int) (state, holds string) {
	return fmt.Sprintf("%s{k}%d", h.prefix, k), fmt.Sprintf("%s{k}%d:holds", h.prefix, k)
}

var ctx = context.Background()

// plain has the plain script decide a request, on one to three keys.
func (h *history) plain(r bucket.Request, seen map[string]int) {
	h.Helper()
	keys := h.r.Perm(3)[:1+h.r.IntN(3)]
	var names []string
	var times []int64
	once := h.r.IntN(2) == 0
	for _, k := range keys {
		state, _ := h.keys(k)
		if names, times = append(names, state), append(times, 1); r.Action == bucket.Take && !once {
			times[len(times)-1] += h.r.Int64N(5)
		}
	}
	if once {
		times = nil
	}
	args := AppendPlainArgs(nil, &r, times, strconv.FormatInt(h.now, 10))
	reply, err := h.rdb.Eval(ctx, h.plainScript.Text.(string), names, args...).Text()
	if err != nil {
		h.Fatal(err)
	}
	answers := Reply(reply)
	for i, k := range keys {
		if r.Times = 1; !once {
			r.Times = times[i]
		}
		before := clone(h.buckets[k])
		var got, want bucket.Answer
		if err := answers.Plain(&r, &got); err != nil {
			h.Fatal(err)
		}
		after := clone(before)
		if bucket.Decide(h.now, after, &r, &want) {
			h.buckets[k] = after
		}
		h.compare(k, before, &r, got, want, seen)
	}
}

// full has the full script decide requests on as many keys.
func (h *history) full(requests []bucket.Request, keys []int, seen map[string]int) {
	h.Helper()
	var names []string
	var args []any
	var rs []*bucket.Request
	var before, after []bucket.Bucket
	for i := range requests {
		h.withStarts(&requests[i])
		state, holds := h.keys(keys[i])
		names, args = append(names, state, holds), append(args, FullArg(&requests[i], h.now))
		rs, before, after = append(rs, &requests[i]), append(before, *clone(h.buckets[keys[i]])), append(after, *clone(h.buckets[keys[i]]))
	}
	reply, err := h.rdb.Eval(ctx, h.fullScript.Text.(string), names, append(args, h.now)...).Text()
	if err != nil {
		h.Fatal(err)
	}
	read := Reply(reply)
	answers := make([]bucket.Answer, len(requests))
	var changed []bool
	if len(requests) == 1 {
		changed = []bool{bucket.Decide(h.now, &after[0], rs[0], &answers[0])}
	} else {
		changed = bucket.DecideJointly(h.now, after, rs, answers)
	}
	for i, k := range keys {
		if changed[i] {
			h.buckets[k] = &after[i]
		}
		var got bucket.Answer
		if err := read.Full(rs[i], &got); err != nil {
			h.Fatal(err)
		}
		if len(requests) > 1 && got.Granted == 0 {
			got.Found(rs[i])
		}
		h.compare(k, &before[i], rs[i], got, answers[i], seen)
		if r := requests[i]; got.Granted > 0 {
			switch r.Action {
			case bucket.Reserve:
				r.Action, r.When = bucket.Cancel, got.Due
				h.dues = append(h.dues, r)
			case bucket.Take:
				if r.Times == 1 {
					h.holds = append(h.holds, r)
				}
			}
		}
	}
}

// compare fails the test unless script and Go agree on an answer, and on what
// is stored of the key.
func (h *history) compare(k int, before *bucket.Bucket, r *bucket.Request, got, want bucket.Answer, seen map[string]int) {
	h.Helper()
	state, holds := h.keys(k)
	stored, err := h.rdb.Get(ctx, state).Bytes()
	if err != nil && err != redis.Nil {
		h.Fatal(err)
	}
	var wantStored, wantHolds []byte
	b := h.buckets[k]
	if len(b.Records) > 0 {
		wantStored = b.AppendBytes(nil)
	}
	for _, hold := range b.Holds {
		wantHolds = fmt.Appendf(wantHolds, " %x until %d", hold.Member(), hold.End)
	}
	var gotHolds []byte
	for _, z := range h.rdb.ZRangeWithScores(ctx, holds, 0, -2).Val() { // the last one keeps the set
		gotHolds = fmt.Appendf(gotHolds, " %x until %.0f", z.Member, z.Score)
	}
	if len(stored) > 14 { // the script's own note is no part of the bucket
		firstEnd := bucket.Int7(stored[7:])
		if len(b.Holds) > 0 && firstEnd > b.Holds[0].End {
			h.Fatalf("at %d, key %d, request %+v: a hold ends at %d, not from %d on", h.now, k, *r, b.Holds[0].End, firstEnd)
		}
		if firstEnd == 0 && r.Set.Holds && !slices.Equal(before.Records, b.Records) {
			h.Fatalf("at %d, key %d, request %+v: the state says that it knows no holds", h.now, k, *r)
		}
		copy(stored[7:], make([]byte, 7))
	}
	if !reflect.DeepEqual(got, want) || !bytes.Equal(stored, wantStored) || !bytes.Equal(gotHolds, wantHolds) {
		h.Fatalf("at %d, key %d\nrequest %+v\nbefore  %+v\nscript  %+v\nGo      %+v\nscript stored %x\nGo stores     %x\nscript holds%s\nGo holds    %s",
			h.now, k, *r, *before, got, want, stored, wantStored, gotHolds, wantHolds)
	}
	for _, key := range []string{state, holds} {
		const unchanged = 200 * 365 * 24 * time.Hour // longer than any: a key's time is not that of the history
		ttl := h.rdb.PTTL(ctx, key).Val()
		if ttl == -1 {
			h.Fatalf("%s has no TTL", key)
		}
		if key == holds && ttl < unchanged/2 {
			h.expire[k] = h.now + ttl.Microseconds()
		}
		h.rdb.PExpire(ctx, key, unchanged)
	}
	for _, hold := range b.Holds {
		if hold.End > h.expire[k] {
			h.Fatalf("at %d, key %d, request %+v: a hold ends at %d, and Redis drops it at %d", h.now, k, *r, hold.End, h.expire[k])
		}
	}
	end := "denied"
	if got.Granted > 0 {
		end = "granted"
	}
	if got.Penalty {
		seen["penalty"]++
	}
	if r.Floors != nil {
		seen["floor "+end]++
	}
	seen[[]string{"take", "charge", "reserve", "cancel", "extend"}[r.Action]+" "+end]++
}

func clone(b *bucket.Bucket) *bucket.Bucket {
	return &bucket.Bucket{Expires: b.Expires, Records: slices.Clone(b.Records), Holds: slices.Clone(b.Holds)}
}

// TestScriptsRunWithoutStruct compares the text that struct.lua makes.
func TestScriptsRunWithoutStruct(t *testing.T) {
	rdb := redistest.Client(t)
	for _, n := range []int64{0, 1, 255, 256, 1 << 31, 1<<51 + 12345, 1<<53 - 1} {
		want := binary.BigEndian.AppendUint64(nil, uint64(n))
		got, err := rdb.Eval(ctx, structs+`return struct.pack('>I7c2BI4', tonumber(ARGV[1]), 'ab', 7, 9) .. '|' .. string.format('%.0f', (struct.unpack('>I7', struct.pack('>I7', tonumber(ARGV[1])))))`, nil, n).Text()
		if err != nil {
			t.Fatal(err)
		}
		if text := string(want[1:]) + "ab\x07\x00\x00\x00\x09|" + fmt.Sprint(n); got != text {
			t.Errorf("struct.pack of %d: got %q, want %q", n, got, text)
		}
	}
	got, err := rdb.Eval(ctx, structs+`return string.format('%.0f', (struct.unpack('>i7', struct.pack('>i7', -12345))))`, nil).Text()
	if err != nil || got != "-12345" {
		t.Errorf("-12345 is read as %s, %v", got, err)
	}
}
