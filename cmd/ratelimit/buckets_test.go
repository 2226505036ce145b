package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// apiFile has a policy with two limits, one with plans and one with slots.
const apiFile = `- {name: api, limits: [20/min, 10/day name daily], overrides: {'value:user:vip': [1000/day name daily]}, blocked: ['value:user:eve']}
- {name: plans, limits: [10/day name daily], plans: {pro: [1000/day name daily]}}
- {name: jobs, shadow: true, limits: [2 at once hold 10h name work, 1 tokens/h burst 1000 name budget]}
`

var perMinute = core.PerMinute(20).WithName("api-1m")

func TestGetSaysWhyAClientIsDenied(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "api", "ip:192.0.2.1", 10, perMinute, daily)
	s.use(t, "api", "ip:192.0.2.2", 6, perMinute, daily)
	s.use(t, "api", "value:user:vip", 10, daily) // in ten minutes, 1,000 a day gain six tokens and a part of one
	expect(t, []expected{
		finds("get api ip:192.0.2.1 --policies p.yaml", "api ip:192.0.2.1: denied: daily is used up, next token in 2 h 14 min\n",
			"  limit   left  capacity  this request           full\n  api-1m  20    20        allowed now            now\n  daily   0     10        allowed in 2 h 14 min  in 23 h 50 min\n"),
		says("get api ip:192.0.2.2 --policies p.yaml", "allowed: 4 of 10 tokens left of daily\n"),
		says("get api value:user:vip --policies p.yaml", "allowed: 996 of 1,000 tokens left of daily"),
		says("get api value:user:kim --policies p.yaml", "allowed: never used, or not since it was full"),
		finds("get api value:user:eve --policies p.yaml", "denied: the policy blocks this key"),
	})
}

// Without the policies it shows what is stored, and what they would add.
func TestGetWithoutPoliciesSaysWhatIsStored(t *testing.T) {
	s := serve(t, nil)
	s.use(t, "api", "ip:192.0.2.1", 10, perMinute, daily)
	debtor := core.Must(core.NewLimiter(s.store, core.Policy{Name: "api", Limits: []core.Limit{perMinute}}))
	require.NoError(t, debtor.Debit(t.Context(), "debtor", 23))
	expect(t, []expected{
		says("get api debtor", "api debtor: owed 3 tokens of api-1m when last used, in the last 0 s\n", "api-1m  -3    20"),
		says("get api ip:192.0.2.1", "api ip:192.0.2.1: 0 of 10 tokens left when last used, in the last 10 min\n",
			"  limit      left  capacity  last used           full at the latest\n  api-1m     10    20        in the last 10 min  in 1 d 3 h\n  (limit 2)  0     10        in the last 10 min  in 1 d 3 h\n",
			"--policies FILE adds"),
		says("get api ip:192.0.2.9", "nothing is stored: never used, or not since it was full"),
		misuses("get api ip:192.0.2.1 --plan pro", "--plan needs --policies FILE"),
		says("block api ip:192.0.2.1 --by ann"),
		finds("get api ip:192.0.2.1", "denied: an operator blocks this key", "blocked  until it is removed, by ann"),
	})
}

// The plan is the one that decided last, or the one that is given.
func TestGetFindsThePlan(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "plans", "value:user:bob", 10, core.PerDay(1000).WithName("daily"))
	s.use(t, "plans", "value:user:ann", 10, daily)
	// In ten minutes, 1,000 a day gain six tokens and a part of one.
	expect(t, []expected{
		says("get plans value:user:bob --policies p.yaml", "allowed: 996 of 1,000 tokens left of daily (plan pro)"),
		finds("get plans value:user:ann --policies p.yaml", "denied: daily is used up"),
		says("get plans value:user:ann --plan pro --policies p.yaml", " of 1,000 tokens left of daily (plan pro)", "daily was last used with a capacity of 10"),
		misuses("get plans value:user:ann --plan pra --policies p.yaml", "plans has no plan pra: did you mean pro?"),
		says("list plans --policies p.yaml", "value:user:bob  allowed: 996 of 1,000 tokens left of daily (plan pro)"),
	})
}

// Slots in use and estimates are said to be held, and shadow mode denies nobody.
func TestGetSaysWhatIsHeld(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "jobs", "value:user:ann", 2, core.InFlight(2).WithName("work").WithMaxHold(10*time.Hour))
	expect(t, []expected{
		says("get jobs value:user:ann --policies p.yaml", "denied: all 2 slots of work are in use; the next is free in 9 h 50 min at the latest", "in 9 h 50 min at the latest  2 held", "counts tokens", "shadow mode: it denies nobody"),
		says("get jobs value:user:ann", "0 of 2 tokens left when last used, in the last 10 min", "2 held"),
		says("list jobs --policies p.yaml", "1 key, 1 denied now"),
	})
	at(t, noon.Add(10*time.Hour)) // after MaxHold, before the key expires
	for _, line := range []string{"get jobs value:user:ann", "get jobs value:user:ann --policies p.yaml"} {
		out, _, _ := command(t, line)
		assert.NotContains(t, out, "never used", "the premise: the key is there: %s", line)
		assert.NotContains(t, out, "held", line)
	}
}

// A client whose key is a join of route and header stays denied after a reset
// of the header's key alone: each command names the key that is meant, changes
// nothing, and ends with 1.
func TestKeysThatRedisLacksAreNotTakenForOthers(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	join := "route:/items/{id}|x-api-key:ann"
	s.use(t, "api", join, 10, daily)
	s.use(t, "api", "x-api-key:k-123", 1, daily)
	s.use(t, "exports", "ip:192.0.2.1", 1, daily)
	meant := "Did you mean " + join + "?\n"
	for _, file := range []string{"", " --policies p.yaml"} {
		expect(t, []expected{
			finds("get api x-api-key:ann"+file, "never used", meant),
			finds("reset api x-api-key:ann"+file, "nothing was stored, so nothing was reset", meant),
			finds("block api x-api-key:ann"+file, "Redis has no bucket of this key, so nothing was changed", "add --new", meant),
			finds("reset api x-api-key:k-132"+file, "Did you mean x-api-key:k-123?\n"),
			finds("reset api ip:192.0.2.1"+file, "nothing was stored"),
		})
	}
	expect(t, []expected{
		finds("override api x-api-key:ann '100/day name daily' --policies p.yaml", "nothing was changed", meant),
		finds("reset apii x-api-key:ann", "nothing was stored", "Redis has keys of other policies: api, exports."),
		finds("get apii x-api-key:ann", "Redis has keys of other policies: api, exports."),
	})
	list, err := s.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	assert.Empty(t, list, "nothing was written")
	expect(t, []expected{
		says("reset api 'route:/items/{id}|x-api-key:ann' --policies p.yaml", "api "+join+": reset, so every limit is full. Before: denied: daily is used up, next token in 2 h 14 min."),
		finds("reset api 'route:/items/{id}|x-api-key:ann'", "nothing was stored, so nothing was reset"),
		says("get api 'route:/items/{id}|x-api-key:ann' --policies p.yaml", "allowed: never used"),
	})
}

// A block of a client that has not come is written if no key is like its own,
// or with --new.
func TestBlocks(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "api", "x-api-key:ann", 6, daily)
	expect(t, []expected{
		says("block api x-api-key:ann --for 7days --by bob --reason 'too many'", "api x-api-key:ann: blocked for 7 d\n", "Services that call redisstore's FollowExceptions obey within 2 s"),
		finds("get api x-api-key:ann --policies p.yaml", "denied: an operator blocks this key (bob until ", `: "too many")`, "daily   4     10        blocked", `blocked  ends in 6 d 23 h, by bob: "too many"`),
		finds("unblock api value:user:ann", "Redis has no block of this key, so nothing was changed", "Did you mean x-api-key:ann?"),
		says("unblock api x-api-key:ann --policies p.yaml", "the block has ended", "The next request: allowed: 4 of 10 tokens left of daily."),
		finds("unblock api x-api-key:ann", "Redis has no block of this key, so nothing was changed"),
		finds("block api value:user:ann", "nothing was changed"),
		says("block api value:user:ann --new", "blocked until it is removed. Redis has no bucket of this key"),
		says("block api value:user:ann", "blocked until it is removed"),
		finds("block apii ip:192.0.2.9", "nothing was changed", "Redis has keys of other policies: api."),
		says("block api ip:192.0.2.9", "blocked until it is removed. Redis has no bucket of this key"),
		misuses("block api ip:192.0.2.9 --for 1fortnight", "must be a time of 1 s to 36500 days"),
		misuses("unblock api ip:192.0.2.9 --new", "unblock has no flag --new"),
	})
	list, err := s.store.Exceptions(t.Context(), "api")
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "ip:192.0.2.9", list[0].Key)
	assert.NotEmpty(t, list[0].By, "by default it is the system's name of who runs the command")
}

// A service that follows exceptions obeys what commands write.
func TestServicesObeyExceptions(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "api", "value:user:bob", 10, daily)
	l := core.Must(core.NewLimiter(s.store, core.Policy{Name: "api", Limits: []core.Limit{daily}}))
	allowed := func() bool {
		t.Helper()
		require.NoError(t, s.store.ReadExceptions(t.Context(), l))
		res, err := l.Allow(t.Context(), "value:user:bob")
		require.NoError(t, err)
		return res.Allowed
	}
	assert.False(t, allowed(), "the premise: its tokens are used up")
	expect(t, []expected{
		says("override api value:user:bob '100/day name daily' --for 2h --policies p.yaml", "api value:user:bob: override for 2 h\n", "  daily: 100/day, was 10/day\n", "The next request: allowed: 90 of 100 tokens left of daily."),
	})
	assert.True(t, allowed())
	expect(t, []expected{
		says("override api value:user:bob '15/min name api-1m' --policies p.yaml", "api-1m: 15/min, was 20/min"),
		says("get api value:user:bob --policies p.yaml", "15/min name api-1m", "100/day name daily", "allowed: 89 of 100 tokens left of daily"),
		says("override api value:user:bob --remove", "the override has ended"),
		finds("override api value:user:bob --remove", "Redis has no override of this key"),
		says("override api value:user:bob '100/day name daily' --policies p.yaml", "override until it is removed"),
		finds("unblock api value:user:bob", "Redis has no block of this key, so nothing was changed"),
		says("block api value:user:bob", "blocked until it is removed, and was: 100/day name daily"),
		finds("override api value:user:bob --remove", "Redis has no override of this key"),
		says("unblock api value:user:bob", "the block has ended"),
		misuses("override api value:user:bob --remove 1/s", "give no limit"),
		misuses("override api value:user:bob --policies p.yaml", "name at least one limit"),
		misuses("override api value:user:bob 5/min", "override needs --policies FILE"),
		misuses("override api value:user:bob 5/min --policies p.yaml", "which limit does 5/min replace? Name it, such as '5/min name api-1m' (there are api-1m, daily)"),
		misuses("override api value:user:bob '5/min name dayly' --policies p.yaml", "the client has no limit dayly: did you mean daily?"),
		misuses("override api value:user:bob ten/min --policies p.yaml", "RL110"),
		says("override plans value:user:kim 50/day --policies p.yaml", "daily: 50/day, was 10/day"),
	})
	assert.False(t, allowed())
}

// An exception that somebody has written by hand concerns its key alone.
func TestExceptionThatCantBeRead(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	require.NoError(t, s.redis.HSet(t.Context(), "ratelimit:%exceptions:api", "value:user:eve", "blocked").Err())
	expect(t, []expected{
		unavailable("list api", `1 exceptions of policy "api" can't be read, such as of "value:user:eve": invalid character`),
		says("block api value:user:bob", "blocked until it is removed"),
		finds("get api value:user:bob", "denied: an operator blocks this key"),
		says("block api value:user:eve --new", "blocked until it is removed"),
		says("list api", "2 exceptions in Redis"),
	})
}

func TestListShowsThoseThatAreWorstOff(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	for i := range 9 {
		s.use(t, "api", fmt.Sprint("value:user:", i), int64(i+1), daily)
	}
	s.use(t, "exports", "value:user:ann", 1, daily)
	s.use(t, "api", "value:user:full", 10, daily)
	out, _, code := command(t, "list api --most 3 --policies p.yaml")
	assert.Equal(t, exitDone, code)
	assert.Equal(t, "api: 10 keys, 1 denied now\n"+
		"  value:user:full  denied: daily is used up, next token in 2 h 14 min\n"+
		"  value:user:8     allowed: 1 of 10 tokens left of daily\n"+
		"  value:user:7     allowed: 2 of 10 tokens left of daily\n"+
		"  … and 7 more (--most shows them)\n", out)
	expect(t, []expected{
		says("list api --denied --policies p.yaml", "api: 10 keys, 1 denied now\n  value:user:full  denied"),
		says("list --most 2", "11 keys\n  api  value:user:full  0 of 10 tokens left when last used, in the last 10 min\n  api  value:user:8     1 of 10"),
		says("list --match ann", "1 key\n  exports  value:user:ann  9 of 10 tokens left when last used, in the last 10 min\n"),
		says("list api --match user", "api: 0 keys\n", "check --prefix (it is ratelimit:)"),
		says("list api --prefix other:", "api: 0 keys\n", "check --prefix (it is other:)"),
		says("block api value:user:8 --by ann"), says("block exports ip:192.0.2.1 --by ann"),
		says("list api --match 8", "1 exception in Redis\n  value:user:8  blocked  until it is removed, by ann\n"),
		says("list", "2 exceptions in Redis\n  api      value:user:8  blocked  until it is removed, by ann\n  exports  ip:192.0.2.1  blocked"),
		misuses("list api --denied", "--denied needs --policies FILE"),
		misuses("list apii --policies p.yaml", "policy apii is not in p.yaml: did you mean api?"),
		misuses("list api --most 0", "--most must be at least 1"),
	})
	require.NoError(t, s.redis.Set(t.Context(), "ratelimit:api:broken", "not a bucket", time.Hour).Err())
	expect(t, []expected{
		says("list api", "1 can't be read"), says("list api --policies p.yaml", "11 keys, 2 denied now, 1 can't be read"),
		says("reset api broken", "Before: it could not be read."),
	})
}

func TestResetAllOfAValue(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "api", "x-api-key:ann", 10, daily)
	s.use(t, "exports", "x-api-key:ann|path:/x", 1, daily)
	s.use(t, "api", "x-api-key:anna", 1, daily)
	expect(t, []expected{
		misuses("reset --all-of ann --policies p.yaml", "api x-api-key:ann: denied: daily is used up", "exports x-api-key:ann|path:/x: 9 of 10", "nothing was reset: --yes resets 2 keys"),
		misuses("reset api --all-of ann", "nothing was reset: --yes resets 1 key"),
		misuses("reset api x --all-of ann", "name no other key"), misuses("reset --all-of ''", "takes a value"),
		says("reset --all-of ann --yes", "api x-api-key:ann: reset", "exports x-api-key:ann|path:/x: reset"),
		finds("reset --all-of ann --yes", "No key has the value ann, so nothing was reset."),
		says("list", "1 key\n  api  x-api-key:anna"),
		misuses("reset", "name a policy and a key"), misuses("reset api", "name a policy and a key, or --all-of VALUE"),
	})
}

// Whatever bytes keys, policies and reasons have, output is text, and what it
// shows of a key means that key: see command.
func TestHostileKeysSteerNoTerminal(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	for _, key := range []string{"\x1b[2J", "user:o'brien", "a\nb", "\u202egnp", "\xff\xfe", "-x", `"q"`, " a ", strings.Repeat("k", 200)} {
		s.use(t, "api", key, 1, daily)
		shown := ""
		for _, line := range []string{"list api --json", "list api --json --policies p.yaml"} {
			out, _, _ := command(t, line)
			var r struct{ Buckets []struct{ Key string } }
			require.NoError(t, json.Unmarshal([]byte(out), &r))
			require.Len(t, r.Buckets, 1)
			shown = r.Buckets[0].Key
		}
		for _, line := range []string{"get api '%s'", "get api '%s' --policies p.yaml", "list api", "block api '%s' --reason 'is evil'", "unblock api '%s'", "reset api '%s'"} {
			if strings.Contains(line, "%") {
				line = fmt.Sprintf(line, shown)
			}
			out, errs, code := command(t, line)
			if !strings.HasPrefix(line, "get") {
				assert.Equal(t, exitDone, code, "%s: %s%s", line, out, errs)
			}
			assert.Contains(t, out, shown, line)
		}
		n, err := s.redis.DBSize(t.Context()).Result()
		require.NoError(t, err)
		assert.LessOrEqual(t, n, int64(1), "%q was reset: exceptions are left", key)
	}
	policy := "evil\x1b[2J"
	s.use(t, "evil", "ann", 1, daily)
	require.NoError(t, s.redis.Rename(t.Context(), "ratelimit:evil:ann", "ratelimit:"+policy+":ann").Err())
	require.NoError(t, s.store.SetException(t.Context(), "api", redisstore.Exception{Key: "ann", By: "\u202ebob", Reason: "\u202e"}))
	expect(t, []expected{says("list", `"evil\x1b[2J"`, `by "\u202ebob"`), finds("get api ann", `"\u202ebob"`), misuses("get '" + policy + "' x --policies p.yaml"), says("doctor")})
	out, errs, _ := printed(t, "", "get", "api", `"bad"quotes"`+"\x1b")
	assert.NotContains(t, out+errs, "\x1b")
}
