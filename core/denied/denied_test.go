package denied_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
)

// deny has top count a denial.
func deny(top *denied.Top, policy, key string) {
	top.Observe(context.Background(), core.Observation{Policy: policy, Key: key, Outcome: core.OutcomeDenied})
}

// truth counts exactly what a Top estimates.
type truth map[string]int64

func (c truth) holds(t *testing.T, p denied.Policy, keys int) {
	t.Helper()
	sum, listed := int64(0), map[string]bool{}
	for _, n := range c {
		sum += n
	}
	assert.Equal(t, sum, p.Denied, "every denial is in the sum")
	assert.LessOrEqual(t, p.Unlisted, sum/int64(keys), "the bound of keys that are not listed is at most the sum divided by the number of keys")
	last := int64(1) << 62
	for _, k := range p.Keys {
		assert.False(t, listed[k.Key], "%s stands once", k.Key)
		listed[k.Key] = true
		assert.LessOrEqual(t, k.AtLeast, c[k.Key], "%s: AtLeast is a lower bound", k.Key)
		assert.GreaterOrEqual(t, k.AtMost, c[k.Key], "%s: AtMost is an upper bound", k.Key)
		assert.LessOrEqual(t, k.AtMost-k.AtLeast, p.Unlisted, "%s: the bounds are as far apart as Unlisted says", k.Key)
		assert.LessOrEqual(t, k.AtLeast, last, "keys are in order")
		last = k.AtLeast
	}
	for key, n := range c {
		if !listed[key] {
			assert.LessOrEqual(t, n, p.Unlisted, "%s is not listed, and Unlisted is an upper bound", key)
		}
	}
}

// Whatever is denied, in one process or several, in one window or two: the
// bounds hold.
func TestBoundsHoldForAnyDenials(t *testing.T) {
	const keys, window = 8, time.Minute
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			exact := truth{}
			var reports []denied.Report
			for range 1 + random.IntN(3) {
				top := core.Must(denied.New(denied.WithMaxKeys(keys), denied.WithWindow(window)))
				began := time.Now()
				zipf := rand.NewZipf(random, 1.1+random.Float64(), 1, 1+uint64(random.IntN(60)))
				for range random.IntN(400) {
					key := fmt.Sprint(zipf.Uint64())
					deny(top, "api", key)
					exact[key]++
					if random.IntN(100) == 0 && time.Since(began) < window*3/2 {
						time.Sleep(window / 4)
					}
				}
				reports = append(reports, top.Report())
			}
			merged := denied.Merge(reports...)
			if len(exact) == 0 {
				assert.Empty(t, merged.Policies)
				return
			}
			exact.holds(t, merged.Policies[0], keys)
			exact.holds(t, merged.Policies[0].Top(3), 1)
			text, err := json.Marshal(merged)
			require.NoError(t, err)
			var read denied.Report
			require.NoError(t, json.Unmarshal(text, &read))
			assert.Equal(t, merged, read, "a report is the same after JSON")
		})
	}
}

// A flood of clients that are denied once each must not hide the one who is
// denied often.
func TestAHeavyKeyIsListedBehindAFlood(t *testing.T) {
	top := core.Must(denied.New(denied.WithMaxKeys(50)))
	for i := range 20_000 {
		deny(top, "api", fmt.Sprint("ip:", i))
		if i%20 == 0 { // 1 of 21, which is more than 1 of 50
			deny(top, "api", "user:ann")
		}
	}
	p := top.Report().Policies[0]
	require.Equal(t, "user:ann", p.Keys[0].Key, "who takes more than 1 of 50 denials is listed, and first")
	assert.GreaterOrEqual(t, p.Keys[0].AtMost, int64(1000))
	assert.Len(t, p.Keys, 50, "memory is bounded")
}

func TestDenialsAreForgottenAfterTwoWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		top := core.Must(denied.New(denied.WithWindow(time.Minute)))
		began := time.Now().UTC().Truncate(time.Second)
		deny(top, "api", "ann")
		time.Sleep(time.Minute - time.Nanosecond)
		deny(top, "api", "ann")
		time.Sleep(time.Minute)
		p := top.Report().Policies[0]
		assert.EqualValues(t, 2, p.Denied, "both are in the window before")
		assert.Equal(t, began, p.From)
		deny(top, "api", "bob")
		time.Sleep(time.Nanosecond)
		p = top.Report().Policies[0]
		assert.EqualValues(t, 1, p.Denied, "the window before has ended two windows after it began")
		assert.Equal(t, "bob", p.Keys[0].Key)
		time.Sleep(2 * time.Minute)
		assert.Empty(t, top.Report().Policies, "nothing was denied for two windows")
	})
}

// What a limiter denies arrives with its key.
func TestTheTopHasKeys(t *testing.T) {
	ctx := context.Background()
	top := core.Must(denied.New())
	policy := core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(1)}}
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithObserver(top.Observe)))
	for range 3 {
		_, err := l.Allow(ctx, "ann")
		require.NoError(t, err)
	}
	require.NoError(t, l.SetShadow(true))
	_, err := l.Allow(ctx, "ann")
	require.NoError(t, err)
	_, err = l.Allow(ctx, "")
	require.ErrorIs(t, err, core.ErrNoKey)
	p := top.Report().Policies[0]
	assert.Equal(t, []int64{3, 1}, []int64{p.Denied, p.Shadow}, "denials, and of these those of shadow mode")
	assert.EqualValues(t, 3, p.Keys[0].AtLeast)
	assert.Equal(t, "ann", p.Keys[0].Key)
}

func TestKeysAreBoundedAndCopied(t *testing.T) {
	top := core.Must(denied.New())
	long := strings.Repeat("k", 1<<20)
	deny(top, "api", long)
	buffer := []byte("ann")
	deny(top, "api", view(buffer))
	copy(buffer, "bob")
	report := top.Report()
	require.Len(t, report.Policies[0].Keys, 2)
	shown := []string{report.Policies[0].Keys[0].Key, report.Policies[0].Keys[1].Key}
	assert.ElementsMatch(t, []string{"ann", top.Form(long)}, shown, "a key is a copy, and a long one its hash")
	assert.Len(t, top.Form(long), len("sha256:")+64)
	for i := range 1100 {
		deny(top, fmt.Sprint("tenant-", i), "ann")
	}
	policies := top.Report().Policies
	assert.Len(t, policies, 1001, "1,000 policies, and one for the others")
	assert.Equal(t, "(other)", policies[0].Policy)
	assert.EqualValues(t, 101, policies[0].Denied)
}

func TestWithKeySecretKeepsHashesAsInTheLog(t *testing.T) {
	secret := []byte("of every replica: random bytes")
	top := core.Must(denied.New(denied.WithKeySecret(secret)))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "login", Limits: []core.Limit{core.PerHour(1)}},
		core.WithKeySecret(secret), core.WithObserver(top.Observe)))
	for range 2 {
		_, err := l.Allow(context.Background(), "ip:192.0.2.1")
		require.NoError(t, err)
	}
	report := top.Report()
	assert.True(t, report.Hashed)
	assert.Equal(t, l.LogKey("ip:192.0.2.1"), report.Policies[0].Keys[0].Key, "the key is as in the limiter's log")
	assert.Equal(t, l.LogKey("ip:192.0.2.1"), top.Form("ip:192.0.2.1"), "an operator can look up a key")
	assert.NotContains(t, fmt.Sprint(report), "192.0.2.1")
	assert.False(t, denied.Merge(report, denied.Report{}).Hashed, "some keys are no hashes")
	assert.True(t, denied.Merge(report, report).Hashed)
}

func TestMergeChangesNoneOfItsReports(t *testing.T) {
	top := core.Must(denied.New(denied.WithMaxKeys(2)))
	for _, key := range []string{"a", "b", "b", "c"} {
		deny(top, "api", key)
	}
	report := top.Report()
	before, err := json.Marshal(report)
	require.NoError(t, err)
	sum := denied.Merge(report, denied.Merge(report))
	assert.EqualValues(t, 8, sum.Policies[0].Denied)
	sum.Policies[0].Keys[0].Key = "changed"
	after, err := json.Marshal(report)
	require.NoError(t, err)
	assert.JSONEq(t, string(before), string(after))
	assert.Equal(t, denied.Report{Policies: []denied.Policy{}}, denied.Merge())
	assert.Empty(t, sum.Policies[0].Top(-1).Keys)
}

func TestOptionsOutOfRangeAreMistakes(t *testing.T) {
	_, err := denied.New(denied.WithMaxKeys(0), nil, denied.WithWindow(time.Millisecond), denied.WithKeySecret([]byte("short")))
	require.EqualError(t, err, "denied.WithMaxKeys: 0 must be from 1 to 10000 (RL304)\n"+
		"denied.WithWindow: 1ms must be from 1s to 8784h, which is 366 days (RL304)\n"+
		"denied.WithKeySecret length: 5 must be at least 16 bytes (RL318)")
	_, err = denied.New(denied.WithMaxKeys(10_001), denied.WithWindow(8785*time.Hour))
	require.ErrorContains(t, err, "10001")
	require.ErrorContains(t, err, "8785h")
	_, err = denied.New(denied.WithMaxKeys(10_000), denied.WithWindow(8784*time.Hour))
	require.NoError(t, err, "the bounds are in range")
}

// Denials, reports and windows at once lose nothing.
func TestConcurrentDenialsAreAllCounted(t *testing.T) {
	top := core.Must(denied.New(denied.WithMaxKeys(3)))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 1000 {
				deny(top, fmt.Sprint("policy-", n%2), fmt.Sprint((i+n)%5))
				if n%100 == 0 {
					_ = denied.Merge(top.Report(), top.Report())
				}
			}
		})
	}
	all.Wait()
	for _, p := range top.Report().Policies {
		assert.EqualValues(t, 2000, p.Denied)
	}
}
