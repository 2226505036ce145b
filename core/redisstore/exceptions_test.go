package redisstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// exceptionStore returns a store with a prefix of its own.
func exceptionStore(t *testing.T) *redisstore.Store {
	return redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), longTimeout)
}

func TestExceptionsAreKeptAsTheyWereWritten(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	location, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	limits := []core.Limit{core.PerDay(5).In(location).WithName("daily"), core.PerMinute(100).WithUnit("tokens").WithMaxHold(time.Minute), core.InFlight(3)}
	for _, policy := range []string{"api", "a:b{c}%", "%exceptions"} {
		for _, e := range []redisstore.Exception{
			{Key: "ann", Limits: limits}, {Key: "ann", For: time.Hour}, {Key: "k:é \x00\n", Limits: []core.Limit{core.PerHour(7)}, For: 90 * time.Minute}, {Key: "zoe"},
		} {
			require.NoError(t, s.SetException(ctx, policy, e))
		}
		list, err := s.Exceptions(ctx, policy)
		require.NoError(t, err)
		require.Len(t, list, 4)
		for i := range list[1].Limits {
			assert.Equal(t, limits[i].String(), list[1].Limits[i].String(), "all limits of an override")
		}
		assert.Equal(t, "ann", list[0].Key)
		assert.Empty(t, list[0].Limits, "a key has a block and an override at once")
		assert.InDelta(t, time.Hour, list[0].For, float64(time.Minute))
		assert.Equal(t, "k:é \x00\n", list[2].Key)
		assert.Equal(t, redisstore.Exception{Key: "zoe"}, list[3])

		was, err := s.RemoveException(ctx, policy, redisstore.Removal{Key: "ann"})
		require.NoError(t, err)
		assert.True(t, was)
		was, err = s.RemoveException(ctx, policy, redisstore.Removal{Key: "ann"})
		require.NoError(t, err)
		assert.False(t, was, "it says whether there was one")
		was, err = s.RemoveException(ctx, policy, redisstore.Removal{Key: "ann", Override: true})
		require.NoError(t, err)
		assert.True(t, was, "an override ends on its own")
		list, err = s.Exceptions(ctx, policy)
		require.NoError(t, err)
		assert.Len(t, list, 2)
	}
}

func TestExceptionsOfLongKeys(t *testing.T) {
	s, ctx, long := exceptionStore(t), t.Context(), "header:"+strings.Repeat("k", 10_000)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: long}))
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Equal(t, []redisstore.Exception{{Key: store.Key(long)}}, list, "Redis has no key that no store has")
	was, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: long})
	require.NoError(t, err)
	assert.True(t, was)
}

func TestExceptionsAreNoBuckets(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	for _, policy := range []string{"api", "%exceptions", "%"} {
		require.NoError(t, s.SetException(ctx, policy, redisstore.Exception{Key: "ann"}))
	}
	for b, err := range s.Buckets(ctx, "", 0) {
		require.NoError(t, err)
		assert.Fail(t, "no bucket was used", b)
	}
	var policies []string
	for b, err := range s.Keys(ctx, 0) {
		require.NoError(t, err)
		assert.Empty(t, b.Key)
		policies = append(policies, b.Policy)
	}
	assert.ElementsMatch(t, []string{"%", "%exceptions", "api"}, policies)
	l := core.Must(core.NewLimiter(s, core.Policy{Name: "%exceptions", Limits: []core.Limit{core.PerHour(2)}, OnFailure: core.FailClosed}))
	_, err := l.Allow(ctx, "api")
	require.NoError(t, err, "a policy's name leads to no exceptions")
}

func TestExceptionsLeaveNothingBehind(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key := redisstore.ExceptionsKey(s, "api")
	ttl := func() time.Duration { return client.PTTL(ctx, key).Val() }
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", For: time.Hour}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob", For: time.Minute}))
	const away = 100 * 24 * time.Hour // for how long a process that was away may still remember what was removed
	assert.InDelta(t, away+time.Hour, ttl(), float64(time.Minute), "the hash outlives its last exception")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "zoe"}))
	assert.Less(t, ttl(), time.Duration(0), "one that has no end stays")
	_, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: "zoe"})
	require.NoError(t, err)
	assert.Greater(t, ttl(), away+time.Minute)
	require.NoError(t, client.HSet(ctx, key, "block:old", "5 5 7 {\"blocked\":true}", "block:older", "4 4 1 {}").Err()) // they ended in 1970
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Len(t, list, 2, "one that has ended is not shown")
	_, err = s.RemoveException(ctx, "api", redisstore.Removal{Key: "bob"})
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"", "block:ann", "block:bob", "block:zoe"}, client.HKeys(ctx, key).Val(), "the next change drops what ended a day ago; removals stay so long")
	assert.Equal(t, "5", strings.Fields(client.HGet(ctx, key, "").Val())[1], "processes learn which words may be missing")
	_, err = s.RemoveException(ctx, "api", redisstore.Removal{Key: "ann"})
	require.NoError(t, err)
	assert.InDelta(t, away, ttl(), float64(time.Minute))
}

func TestExceptionsAreBounded(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key, fields := redisstore.ExceptionsKey(s, "api"), map[string]string{"": "7 0 0"}
	for i := range redisstore.MaxExceptions {
		fields["block:"+strconv.Itoa(i)] = `5 5 0 {"blocked":true}`
	}
	require.NoError(t, client.HSet(ctx, key, fields).Err())
	require.ErrorIs(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}), redisstore.ErrExceptions)
	assert.Equal(t, "7 0 0", client.HGet(ctx, key, "").Val(), "nothing has changed")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "5", For: time.Hour}), "one in place of another")
	require.NoError(t, client.HSet(ctx, key, "block:more", `5 5 0 {"blocked":true}`).Err())
	list, err := s.Exceptions(ctx, "api")
	require.ErrorContains(t, err, "1001 exceptions")
	assert.Len(t, list, redisstore.MaxExceptions)
	require.NoError(t, client.HSet(ctx, key, "block:still more", `5 5 0 {"blocked":true}`).Err())
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "6", For: time.Hour}), "one in place of another, of too many")
	was, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: "7"})
	require.NoError(t, err, "removing some must help")
	assert.True(t, was)
	require.ErrorIs(t, s.SetException(ctx, "api", redisstore.Exception{Key: "7"}), redisstore.ErrExceptions)
}

func TestExceptionsThatCantBeReadAreLeftOut(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key := redisstore.ExceptionsKey(s, "api")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	for field, value := range map[string]string{
		"block:secret": "blocked", "block:secret1": `-5 5 0 {"blocked":true}`, "block:secret2": "5 5 0", "block:secret3": `99999999999999999999 5 0 {"blocked":true}`,
		"block:secret4": `5 5 0 {"limits":["5/h"]}`, "block:secret5": "0 blocked", "block:": `5 5 0 {"blocked":true}`, "override:secret": `5 5 0 {"limits":["secret"]}`,
		"override:secret1": "5 5 0 {}", "override:secret2": `5 5 0 {"limits":["5/h name a","6/h name a"]}`, "secret": "", "pause:secret": "5 5 0 later",
	} {
		require.NoError(t, client.HSet(ctx, key, field, value).Err())
	}
	list, err := s.Exceptions(ctx, "api")
	assert.Equal(t, []redisstore.Exception{{Key: "ann"}}, list, "the others hold")
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret", "an error shows no key")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob"}))
	assert.Equal(t, "5 5 0 later", client.HGet(ctx, key, "pause:secret").Val(), "what another version has written stays")
	require.NoError(t, client.Set(ctx, key, "a foreign value", 0).Err())
	_, err = s.Exceptions(ctx, "api")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, strconv.Quote(key), "the message says what to look at")
	require.ErrorContains(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob"}), "WRONGTYPE")
}

func TestExceptionsKeepWhoSetThemAndWhy(t *testing.T) {
	s := exceptionStore(t)
	for _, want := range []redisstore.Exception{
		{Key: "ann", Limits: []core.Limit{core.Limit{Times: 10}, core.PerHour(3).WithName("hour")}, By: "Zoë", Reason: "launch: \"x\" <&> \u2028"},
		{Key: "ann", By: strings.Repeat("x", 256)},
	} {
		require.NoError(t, s.SetException(t.Context(), "api", want))
		list, err := s.Exceptions(t.Context(), "api")
		require.NoError(t, err)
		require.Contains(t, list, want)
	}
}

func TestExceptionsReportMistakes(t *testing.T) {
	s := exceptionStore(t)
	for rule, test := range map[string]struct {
		policy string
		e      redisstore.Exception
		says   string
	}{
		"no key":        {"api", redisstore.Exception{}, "SetException key: \"\" is an empty key, which no request can have (RL111)"},
		"a past end":    {"api", redisstore.Exception{Key: "ann", For: -1}, "SetException for: -1ns"},
		"a short time":  {"api", redisstore.Exception{Key: "ann", For: 10}, "SetException for: 10ns must be 0, or at least 1 ms (RL111)"},
		"a wrong limit": {"api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerHour(-1)}}, "Capacity"},
		"no policy":     {"", redisstore.Exception{Key: "ann"}, "Policy.Name"},
		"two lines":     {"api", redisstore.Exception{Key: "ann", Reason: "a\nb"}, "SetException reason: \"a\\nb\" must be one line of text, at most 256 bytes (RL111)"},
		"a long name":   {"api", redisstore.Exception{Key: "ann", By: strings.Repeat("x", 257)}, "SetException by: "},
		"no factor":     {"api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.Limit{Times: -1}}}, "Times: -1 must be from 0.001"},
	} {
		require.ErrorContains(t, s.SetException(t.Context(), test.policy, test.e), test.says, rule)
	}
	_, err := redisstore.New(nil).Exceptions(t.Context(), "api")
	require.ErrorContains(t, err, "client")
	_, err = s.RemoveException(t.Context(), "api", redisstore.Removal{Key: "ann", By: "a\nb", Reason: strings.Repeat("x", 257)})
	require.ErrorContains(t, err, `RemoveException by: "a\nb" must be one line`)
	require.ErrorContains(t, err, "RemoveException reason: ")
	_, err = redisstore.New(nil).RemoveException(t.Context(), "api", redisstore.Removal{Key: "ann"})
	require.ErrorContains(t, err, "client")
}

// What another program writes must not keep operators from writing, nor fill
// logs.
func TestExceptionsBesideForeignFields(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key := redisstore.ExceptionsKey(s, "api")
	version := func() string { return client.HGet(ctx, key, "").Val() }
	fields := map[string]string{"": "999999999999999999999999", "block:far": `5 5 999999999999999999999 {"blocked":true}`, "block:long": "0 " + strings.Repeat("x", 1<<20)}
	for i := range 900 {
		fields["user@example.com "+strconv.Itoa(i)] = "\xff\x00"
	}
	require.NoError(t, client.HSet(ctx, key, fields).Err())
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", For: time.Hour}), "a foreign end is no reason to fail")
	before := version()
	assert.NotEqual(t, fields[""], before, "followers see a change whatever the version was")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob", For: time.Hour}))
	assert.NotEqual(t, before, version())
	list, err := s.Exceptions(ctx, "api")
	assert.Len(t, list, 2)
	require.ErrorContains(t, err, "902 exceptions of policy \"api\" can't be read")
	assert.Less(t, len(err.Error()), 2000, "one error for all of them")
	assert.NotContains(t, err.Error(), "@example.com", "a field without a kind can be a key")
}

// A script that reads a huge hash would keep Redis from its work for seconds.
func TestExceptionsOfAHugeHashAreNotRead(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key, fields := redisstore.ExceptionsKey(s, "api"), make(map[string]string)
	for i := range 10_001 {
		fields["foreign "+strconv.Itoa(i)] = "value"
	}
	require.NoError(t, client.HSet(ctx, key, fields).Err())
	_, err := s.Exceptions(ctx, "api")
	require.ErrorContains(t, err, "10001 fields")
	require.ErrorContains(t, err, strconv.Quote(key), "the message says what to look at")
	require.ErrorContains(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}), "10001 fields")
	assert.EqualValues(t, 10_001, client.HLen(ctx, key).Val(), "nothing has changed")
	require.NoError(t, client.Del(ctx, key).Err())
}

// Two writers at once lose no exception, and the version never returns.
func TestExceptionsOfSeveralWriters(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	versions := make(map[string]bool)
	for i := range 50 {
		require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: fmt.Sprint(i % 2)}))
		version := client.HGet(ctx, redisstore.ExceptionsKey(s, "api"), "").Val()
		assert.False(t, versions[version], "version %s was there before", version)
		versions[version] = true
		if i%5 == 4 {
			require.NoError(t, client.Del(ctx, redisstore.ExceptionsKey(s, "api")).Err())
		}
	}
}

// Blocks matter most while somebody floods Redis.
func TestExceptionsAreWrittenToAFullServer(t *testing.T) {
	server := redistest.Start(t)
	client, ctx := server.Client(t), t.Context()
	s := redisstore.New(client, longTimeout)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	require.NoError(t, client.ConfigSet(ctx, "maxmemory", "1").Err())
	require.ErrorContains(t, client.Set(ctx, "other", "value", 0).Err(), "OOM", "the premise")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "eve"}))
	_, err := s.RemoveException(ctx, "api", redisstore.Removal{Key: "ann"})
	require.NoError(t, err)
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Equal(t, []redisstore.Exception{{Key: "eve"}}, list)
}

// An exception for a limit that this version of the policy does not have is
// left out. Blocks and all others hold.
func TestExceptionsThatDoNotFitLeaveTheOthersInForce(t *testing.T) {
	var log bytes.Buffer
	store := redisstore.New(redistest.Client(t), redisstore.WithPrefix(redistest.Prefix()), redisstore.WithTimeout(10*time.Second), core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(4).WithName("hour"), core.PerDay(9).WithName("day")}}))
	for key, limits := range map[string][]core.Limit{
		"ann": {core.PerHour(400).WithName("hour")}, "bob": {core.PerHour(400).WithName("hours")}, "bobby": {core.PerDay(900).WithName("day")}, "eve": nil,
	} {
		require.NoError(t, store.SetException(t.Context(), "api", redisstore.Exception{Key: key, Limits: limits}))
	}
	require.ErrorContains(t, store.ReadExceptions(t.Context(), limiter), `"hours" is no limit of the policy`)
	for key, want := range map[string][]int64{"ann": {400, 9}, "bob": {4, 9}, "bobby": {4, 900}, "eve": {4, 9}} {
		res, err := limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		assert.Equal(t, key != "eve", res.Allowed, key)
		assert.Equal(t, want, []int64{res.Limits()[0].Limit.Capacity, res.Limits()[1].Limit.Capacity}, key)
	}
}
