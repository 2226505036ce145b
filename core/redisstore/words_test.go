package redisstore

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// fleet is a Redis that forgets, and processes that follow the exceptions of
// one policy. For each key it knows the number of the newest word that Redis
// and that each process can know of.
type fleet struct {
	server    *miniredis.Miniredis
	store     *Store
	clock     time.Time     // of the processes
	behind    time.Duration // is the clock of Redis
	processes []*followingProcess
	redis     map[string]int
	said      []core.Limit // by number; of a removal it has no Capacity
	replica   *hashCopy
}

// followingProcess is a process of a fleet.
type followingProcess struct {
	memory exceptionMemory
	knows  map[string]int
	puts   *putBack // what it has read that Redis lacks
}

// hashCopy is what a replica has of the exceptions.
type hashCopy struct {
	fields map[string]string
	knows  map[string]int
}

func newFleet(t *testing.T, processes int) *fleet {
	t.Helper()
	f := &fleet{server: miniredis.RunT(t)}
	client := redis.NewClient(&redis.Options{Addr: f.server.Addr(), ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	f.store = New(client, WithTimeout(time.Minute))
	f.begin(processes)
	return f
}

// begin forgets everything.
func (f *fleet) begin(processes int) {
	f.server.FlushAll()
	f.clock, f.behind, f.redis, f.said, f.replica = time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC), 0, map[string]int{}, []core.Limit{{}}, nil
	f.processes = nil
	for range processes {
		f.processes = append(f.processes, &followingProcess{knows: map[string]int{}})
	}
	f.pass(0)
}

// pass lets time pass.
func (f *fleet) pass(d time.Duration) {
	f.clock = f.clock.Add(d)
	f.server.SetTime(f.clock.Add(-f.behind))
}

// say has an operator override a key's limits, or end that.
func (f *fleet) say(t require.TestingT, key string, removes bool) {
	f.pass(time.Millisecond)
	f.redis[key] = len(f.said)
	if removes {
		f.said = append(f.said, core.Limit{})
		_, err := f.store.RemoveException(context.Background(), "api", Removal{Key: key, Override: true})
		require.NoError(t, err)
		return
	}
	l := core.PerHour(int64(len(f.said)))
	f.said = append(f.said, l)
	require.NoError(t, f.store.SetException(context.Background(), "api", Exception{Key: key, Limits: []core.Limit{l}}))
}

// lose has Redis forget all, and its clock step back.
func (f *fleet) lose(back time.Duration) {
	f.server.Del(f.store.batches.exceptionsKey("api"))
	f.redis = map[string]int{}
	f.behind += back
	f.pass(0)
}

// copy has the replica take in what the master has.
func (f *fleet) copy() {
	key := f.store.batches.exceptionsKey("api")
	f.replica = &hashCopy{map[string]string{}, maps.Clone(f.redis)}
	fields, _ := f.server.HKeys(key)
	for _, field := range fields {
		f.replica.fields[field] = f.server.HGet(key, field)
	}
}

// failOver has the replica take over, with what it has.
func (f *fleet) failOver() {
	if f.replica == nil {
		return
	}
	f.lose(0)
	for field, value := range f.replica.fields {
		f.server.HSet(f.store.batches.exceptionsKey("api"), field, value)
	}
	f.redis = maps.Clone(f.replica.knows)
}

// newest adds what others know.
func newest(knows, others map[string]int) {
	for key, n := range others {
		knows[key] = max(knows[key], n)
	}
}

// read is the first part of a poll of p.
func (f *fleet) read(t require.TestingT, p *followingProcess) {
	f.pass(time.Microsecond)
	ctx := context.Background()
	version, err := f.store.batches.client.HGet(ctx, f.store.batches.exceptionsKey("api"), "").Result()
	if err != nil {
		require.ErrorIs(t, err, redis.Nil)
	}
	if p.memory.confirm(version, f.clock) {
		require.Equal(t, f.redis, p.knows, "a version stands for the words that the hash has")
		return
	}
	asked := f.clock
	fields, now, err := f.store.batches.exceptions(ctx, "api")
	require.NoError(t, err)
	f.pass(time.Microsecond)
	p.puts, err = p.memory.learn("api", reading{fields, now, asked, f.clock})
	require.NoError(t, err)
	newest(p.knows, f.redis)
	f.check(t, p)
}

// put is the second part.
func (f *fleet) put(t require.TestingT, p *followingProcess) {
	if p.puts == nil {
		return
	}
	n, err := f.store.batches.changeExceptions(context.Background(), "api", "put", p.puts.expected, p.puts.version, p.puts.fields)
	require.NoError(t, err)
	if n > 0 {
		p.memory.wrote(p.puts)
		newest(f.redis, p.knows)
	}
	p.puts = nil
}

// check demands that the newest words are in force which a process can know of.
func (f *fleet) check(t require.TestingT, p *followingProcess) {
	want := map[string]string{}
	for key, n := range p.knows {
		if f.said[n].Capacity > 0 {
			want[key] = f.said[n].String()
		}
	}
	has := map[string]string{}
	held, _ := p.memory.held()
	for _, e := range held.list {
		has[e.Key] = e.Limits[0].String()
	}
	require.Equal(t, want, has, "the newest word about each key is in force")
}

// settle has all processes poll, until nobody has anything to put back. It
// returns how often they wrote.
func (f *fleet) settle(t require.TestingT) (writes int) {
	for range 3 {
		for _, p := range f.processes {
			f.read(t, p)
			if p.puts != nil {
				writes++
			}
			f.put(t, p)
		}
	}
	for _, p := range f.processes {
		require.Equal(t, f.redis, p.knows, "every process learns all that one knows")
		f.check(t, p)
		f.read(t, p)
		require.Nil(t, p.puts, "nobody has anything to put back")
	}
	return writes
}

// step is what happens to a fleet, besides that Redis forgets.
func (f *fleet) step(t *rapid.T) {
	p := f.processes[rapid.IntRange(0, len(f.processes)-1).Draw(t, "process")]
	switch rapid.SampledFrom([]string{"say", "say", "remove", "read", "read", "put", "poll", "poll", "copy", "restart", "pass"}).Draw(t, "step") {
	case "say":
		f.say(t, rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "key"), false)
	case "remove":
		f.say(t, rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "key"), true)
	case "read":
		f.read(t, p)
	case "put":
		f.put(t, p)
	case "poll":
		f.read(t, p)
		f.put(t, p)
	case "copy":
		f.copy()
	case "restart":
		*p = followingProcess{knows: map[string]int{}}
	case "pass":
		f.pass(time.Duration(rapid.IntRange(0, 5000).Draw(t, "milliseconds")) * time.Millisecond)
	}
}

// Whatever Redis forgets, and in whatever order processes poll: the newest word
// about each key wins that Redis or a process still knows.
func TestNewestWordWins(t *testing.T) {
	const processes = 3
	f := newFleet(t, processes)
	rapid.Check(t, func(rt *rapid.T) {
		f.begin(processes)
		for range rapid.IntRange(1, soak.Budget(40, 80)).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "loss") {
			case 0:
				f.lose(0)
			case 1:
				f.failOver()
			default:
				f.step(rt)
			}
		}
		f.settle(rt)
	})
}

// The same if servers with slower clocks take over. Their stamps are lower,
// until a process has put back what it remembers: so all processes poll between
// two losses.
func TestNewestWordWinsOnSlowerClocks(t *testing.T) {
	const processes = 3
	f := newFleet(t, processes)
	rapid.Check(t, func(rt *rapid.T) {
		f.begin(processes)
		for range rapid.IntRange(1, soak.Budget(4, 8)).Draw(rt, "losses") {
			for range rapid.IntRange(0, 10).Draw(rt, "steps before") {
				f.step(rt)
			}
			f.settle(rt)
			f.replica = nil
			f.lose(time.Duration(rapid.IntRange(0, 1000).Draw(rt, "days")) * 24 * time.Hour)
			for range rapid.IntRange(0, 10).Draw(rt, "steps after") {
				f.step(rt)
			}
			f.settle(rt)
		}
	})
}

// However many processes see a loss, one puts back, and the others see a
// version that they know.
func TestProcessesPutBackOnce(t *testing.T) {
	const processes = 50
	f := newFleet(t, processes)
	for i := range 20 {
		f.say(t, fmt.Sprint("key-", i), i%5 == 4)
	}
	f.settle(t)
	f.lose(0)
	assert.Equal(t, 1, f.settle(t), "one process writes")
	assert.Zero(t, f.settle(t), "and then nobody does")
	f.lose(0)
	for _, p := range f.processes {
		f.read(t, p)
	}
	wrote := 0
	for _, p := range f.processes {
		before := f.server.HGet(f.store.batches.exceptionsKey("api"), "")
		f.put(t, p)
		if f.server.HGet(f.store.batches.exceptionsKey("api"), "") != before {
			wrote++
		}
	}
	assert.Equal(t, 1, wrote, "of many that have seen the loss at once too")
}

// The clock of a server that takes over is behind: an operator's word is newer
// than what processes remember, also if it comes before they put anything back.
func TestNewerWordWinsOnASlowerClock(t *testing.T) {
	for _, lost := range []bool{true, false} {
		for _, first := range []bool{true, false} {
			f := newFleet(t, 2)
			f.say(t, "eve", false)
			f.settle(t)
			f.pass(time.Second)
			if lost {
				f.lose(time.Hour)
			} else {
				f.behind = time.Hour
				f.pass(0)
			}
			if !first {
				f.settle(t)
			}
			f.say(t, "eve", true)
			f.say(t, "bob", false)
			f.settle(t)
			f.lose(0)
			f.settle(t)
			list, err := f.store.Exceptions(t.Context(), "api")
			require.NoError(t, err)
			require.Len(t, list, 1, "the hash was lost: %v; the operator came first: %v", lost, first)
			assert.Equal(t, "bob", list[0].Key)
		}
	}
}

// A process that was cut off brings nothing back that was removed meanwhile,
// also when Redis has dropped the removal.
func TestProcessThatWasCutOffBringsNothingBack(t *testing.T) {
	f := newFleet(t, 2)
	cutOff, other := f.processes[0], f.processes[1]
	f.say(t, "eve", false)
	f.say(t, "ann", false)
	f.settle(t)
	f.say(t, "eve", true)
	f.pass(25 * time.Hour)
	for range 2 * readAgain { // until the process reads without a change
		f.read(t, other)
		f.put(t, other)
	}
	key := f.store.batches.exceptionsKey("api")
	fields, err := f.server.HKeys(key)
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"", "override:ann"}, fields, "a removal stays for a day, so that no key stays that was forgotten")
	f.read(t, cutOff)
	assert.Nil(t, cutOff.puts)
	f.check(t, cutOff)
	f.lose(0)
	f.settle(t)
	now, err := f.server.HKeys(key)
	require.NoError(t, err)
	assert.ElementsMatch(t, fields, now)
}

// Redis keeps as many removals as there may be exceptions. What it drops first,
// processes drop too.
func TestRemovalsAreBounded(t *testing.T) {
	f := newFleet(t, 2)
	key := f.store.batches.exceptionsKey("api")
	f.say(t, "eve", false)
	f.settle(t)
	f.say(t, "eve", true)
	f.pass(time.Second)
	for i := range MaxExceptions {
		f.server.HSet(key, fmt.Sprint("override:key-", i), word{f.clock.UnixMicro() + int64(i), f.clock.UnixMilli(), 1, "{}"}.String())
	}
	f.pass(time.Second)
	f.say(t, "ann", true)
	fields, err := f.server.HKeys(key)
	require.NoError(t, err)
	assert.Len(t, fields, 1+MaxExceptions, "the version, and the removals")
	assert.NotContains(t, fields, "override:eve", "the oldest is dropped")
	f.settle(t)
	f.lose(0)
	f.settle(t)
}

// An exception that ended is no older one again.
func TestEndedExceptionBringsNoOlderOneBack(t *testing.T) {
	f := newFleet(t, 2)
	f.say(t, "eve", false)
	f.settle(t)
	require.NoError(t, f.store.SetException(t.Context(), "api", Exception{Key: "eve", Limits: []core.Limit{core.PerHour(9)}, For: time.Minute}))
	p := f.processes[0]
	f.pass(time.Hour)
	for _, p := range f.processes {
		p.knows = map[string]int{}
	}
	f.redis = map[string]int{}
	f.read(t, p)
	f.lose(0)
	f.settle(t)
	list, err := f.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	assert.Empty(t, list)
}

// What a later version has written is no word of this one: nothing replaces it.
func TestProcessesPutNothingBackOverALaterLayout(t *testing.T) {
	f := newFleet(t, 1)
	f.say(t, "eve", false)
	f.settle(t)
	key := f.store.batches.exceptionsKey("api")
	f.server.HSet(key, "override:eve", "v2 …")
	f.server.HSet(key, "", "1 0 7")
	p := f.processes[0]
	fields, now, err := f.store.batches.exceptions(t.Context(), "api")
	require.NoError(t, err)
	puts, err := p.memory.learn("api", reading{fields, now, f.clock, f.clock})
	require.ErrorContains(t, err, "1 exceptions of policy \"api\" can't be read")
	assert.Nil(t, puts)
	held, _ := p.memory.held()
	assert.Empty(t, held.list, "it may say anything")
}

// A word has room for more: who wrote it, why, and what was before.
func TestWordsHaveRoomForMore(t *testing.T) {
	f := newFleet(t, 1)
	f.say(t, "eve", false)
	key := f.store.batches.exceptionsKey("api")
	value := f.server.HGet(key, "override:eve")
	value = strings.TrimSuffix(value, "}") + `,"author":"ann"}`
	f.server.HSet(key, "override:eve", value)
	f.settle(t)
	f.lose(0)
	f.settle(t)
	assert.Equal(t, value, f.server.HGet(key, "override:eve"), "a process puts back what it does not know")
}
