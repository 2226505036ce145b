package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
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
	return storeOn(redistest.Client(t))
}

func remove(t *testing.T, s *redisstore.Store, policy, key string) (was bool) {
	t.Helper()
	was, err := s.RemoveException(t.Context(), policy, key, "bob", "over")
	require.NoError(t, err)
	return was
}

// hostileKeys are keys that a client may have chosen.
var hostileKeys = []string{"ann", "k:é \x00\n", "\xff\xfe", `{"at":1}`, "{ann}", "block:ann", "\"", strings.Repeat("k", store.MaxKey)}

func TestExceptionsAreKeptAsTheyWereWritten(t *testing.T) {
	s, ctx := exceptionStore(t), t.Context()
	location, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	limits := []core.Limit{core.PerDay(5).In(location).WithName("daily"), core.PerMinute(100).WithUnit("tokens").WithMaxHold(time.Minute), core.InFlight(3)}
	for _, policy := range []string{"api", "a:b{c}%", "%exceptions"} {
		want := map[string]redisstore.Exception{}
		for i, key := range hostileKeys {
			e := redisstore.Exception{Key: key, By: "Zoë", Reason: "launch: \"x\" <&> \u2028"}
			if i%2 == 0 {
				e.Limits = limits[i%4:]
			}
			require.NoError(t, s.SetException(ctx, policy, e))
			want[key] = e
		}
		list, err := s.Exceptions(ctx, policy)
		require.NoError(t, err)
		require.Len(t, list, len(want))
		for _, e := range list {
			assert.Equal(t, fmt.Sprint(want[e.Key]), fmt.Sprint(e))
			assert.True(t, remove(t, s, policy, e.Key), "%q", e.Key)
			assert.False(t, remove(t, s, policy, e.Key), "it says whether there was one")
		}
		list, err = s.Exceptions(ctx, policy)
		require.NoError(t, err)
		assert.Empty(t, list)
	}
}

func TestExceptionReplacesThatOfItsKey(t *testing.T) {
	s, ctx, long := exceptionStore(t), t.Context(), "x-api-key:"+strings.Repeat("k", 10_000)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: long, Limits: []core.Limit{core.PerHour(7)}}))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: long, For: time.Hour}))
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, store.Key(long), list[0].Key, "Redis has no key that no store has")
	assert.True(t, list[0].Blocks())
	assert.InDelta(t, time.Hour, list[0].For, float64(time.Minute))
	assert.True(t, remove(t, s, "api", long))
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

// What has ended stays as long as a process may remember an older word of its
// key: then the next change drops it, and at last the hash goes.
func TestRedisForgetsWhatHasEnded(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key := redisstore.ExceptionsKey(s, "api")
	const week, slack = 7 * 24 * time.Hour, float64(time.Minute)
	ttl := func() time.Duration { return client.PTTL(ctx, key).Val() }
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann", For: time.Hour}))
	assert.InDelta(t, time.Hour, ttl(), slack)
	remove(t, s, "api", "ann")
	assert.InDelta(t, time.Hour, ttl(), slack, "a removal stays as long as what it ends would have held")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "zoe"}))
	assert.Greater(t, ttl(), 10*365*24*time.Hour, "one that has no end stays")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "zoe", For: time.Hour}))
	assert.InDelta(t, week, ttl(), slack, "one in place of one without an end stays for a week")
	remove(t, s, "api", "zoe")
	assert.InDelta(t, week, ttl(), slack)
	remove(t, s, "api", "eve")
	require.NoError(t, client.HSet(ctx, key, "old", `{"at":1,"end":5,"keep":5,"blocked":true}`, "bob", `{"at":1,"end":5,"keep":5,"blocked":true}`).Err()) // ended in 1970
	assert.False(t, remove(t, s, "api", "bob"))
	assert.ElementsMatch(t, []string{"", "ann", "bob", "eve", "zoe"}, client.HKeys(ctx, key).Val(), "a removal stays also if Redis had no exception")
}

func TestExceptionsAreBounded(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key, fields := redisstore.ExceptionsKey(s, "api"), map[string]string{}
	for i := range redisstore.MaxExceptions {
		fields[strconv.Itoa(i)] = `{"at":5,"blocked":true}`
	}
	require.NoError(t, client.HSet(ctx, key, fields).Err())
	require.ErrorIs(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}), redisstore.ErrExceptions)
	assert.False(t, client.HExists(ctx, key, "").Val(), "nothing has changed")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "5", For: time.Hour}), "one in place of another")
	assert.True(t, remove(t, s, "api", "7"))
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}), "removing one helps")

	for i := range 4 * redisstore.MaxExceptions {
		fields["removed "+strconv.Itoa(i)] = `{"at":5,"keep":9999999999999,"removed":true}`
	}
	require.NoError(t, client.HSet(ctx, key, fields).Err())
	_, err := s.RemoveException(ctx, "api", "eve", "", "")
	require.ErrorIs(t, err, redisstore.ErrExceptions, "removals are bounded too")
	assert.True(t, remove(t, s, "api", "8"), "but not of what is there")

	for i := range 5001 {
		fields["foreign "+strconv.Itoa(i)] = "value"
	}
	require.NoError(t, client.HSet(ctx, key, fields).Err())
	_, err = s.Exceptions(ctx, "api")
	require.ErrorContains(t, err, "fields: reading them would keep Redis from its work")
	require.ErrorContains(t, err, strconv.Quote(key), "the message says what to look at")
}

func TestFieldThatCantBeReadConcernsItselfAlone(t *testing.T) {
	s, client, ctx := exceptionStore(t), redistest.Client(t), t.Context()
	key := redisstore.ExceptionsKey(s, "api")
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "ann"}))
	wrong := map[string]string{
		"a": "blocked", "b": `{"blocked":true}`, "c": `{"at":-5,"blocked":true}`, "d": `{"at":99999999999999999999,"blocked":true}`, "e": `{"at":5}`,
		"f": `{"at":5,"blocked":true,"limits":["5/h"]}`, "g": `{"at":5,"limits":["soon"]}`, "h": `{"at":5,"limits":["5/h name a","6/h name a"]}`,
		"i": "", "j": `{"at":5,"pause":"later"}`, "k": `{"at":9000000000000000000,"blocked":true}`, strings.Repeat("l", 129): `{"at":5,"blocked":true}`,
	}
	for field, value := range wrong {
		require.NoError(t, client.HSet(ctx, key, field, value).Err())
	}
	list, err := s.Exceptions(ctx, "api")
	assert.Equal(t, []redisstore.Exception{{Key: "ann"}}, list, "the others hold")
	require.ErrorAs(t, err, new(*store.StateError))
	require.ErrorContains(t, err, `12 exceptions of policy "api" can't be read, such as of "a": invalid character`)
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "a"}), "an operator can repair it")
	assert.True(t, remove(t, s, "api", "b"))
	assert.JSONEq(t, wrong["j"], client.HGet(ctx, key, "j").Val(), "what another version has written stays")

	require.NoError(t, client.HSet(ctx, key, "", "no number").Err())
	require.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: "zoe"}), "nor does the version matter")
	require.NoError(t, client.Set(ctx, key, "a foreign value", 0).Err())
	_, err = s.Exceptions(ctx, "api")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.ErrorContains(t, err, strconv.Quote(key))
	require.ErrorContains(t, s.SetException(ctx, "api", redisstore.Exception{Key: "bob"}), "WRONGTYPE")
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
		"a wrong limit": {"api", redisstore.Exception{Key: "ann", Limits: []core.Limit{core.PerHour(-1)}}, "RefillRate: -1"},
		"no policy":     {"", redisstore.Exception{Key: "ann"}, "Policy.Name"},
		"two lines":     {"api", redisstore.Exception{Key: "ann", Reason: "a\nb"}, "SetException reason: \"a\\nb\" must be one line of text, at most 256 bytes (RL111)"},
		"a long name":   {"api", redisstore.Exception{Key: "ann", By: strings.Repeat("x", 257)}, "SetException by: "},
	} {
		require.ErrorContains(t, s.SetException(t.Context(), test.policy, test.e), test.says, rule)
	}
	_, err := s.RemoveException(t.Context(), "api", "", "a\nb", strings.Repeat("x", 257))
	for _, says := range []string{"RemoveException key: ", `RemoveException by: "a\nb" must be one line`, "RemoveException reason: "} {
		require.ErrorContains(t, err, says)
	}
	_, err = redisstore.New(nil).Exceptions(t.Context(), "api")
	require.ErrorContains(t, err, "client")
	_, err = redisstore.New(nil).RemoveException(t.Context(), "api", "ann", "", "")
	require.ErrorContains(t, err, "client")
}

func TestConcurrentWritersLoseNothing(t *testing.T) {
	prefix, ctx := redistest.Prefix(), t.Context()
	const writers, each = 8, 12
	var running sync.WaitGroup
	for w := range writers {
		s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(prefix), redisstore.WithTimeout(10*time.Second))
		running.Go(func() {
			for i := range each {
				assert.NoError(t, s.SetException(ctx, "api", redisstore.Exception{Key: fmt.Sprint(w, " ", i)}))
				if i%3 == 2 {
					was, err := s.RemoveException(ctx, "api", fmt.Sprint(w, " ", i), "", "")
					assert.NoError(t, err)
					assert.True(t, was)
				}
			}
		})
	}
	running.Wait()
	s := redisstore.New(redistest.Client(t), redisstore.WithPrefix(prefix), longTimeout)
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Len(t, list, writers*each*2/3)
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
	remove(t, s, "api", "ann")
	list, err := s.Exceptions(ctx, "api")
	require.NoError(t, err)
	assert.Equal(t, []redisstore.Exception{{Key: "eve"}}, list)
}
