package adminlimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// denials has top count denials of keys.
func denials(top *adminlimit.Top, policy string, keys ...string) {
	for _, key := range keys {
		top.Observe(context.Background(), core.Observation{Policy: policy, Key: key, Outcome: core.OutcomeDenied})
	}
}

// Whatever is denied, in one hour or two, the counts are within the bounds that
// a report gives.
func TestCountsAreWithinTheirBounds(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			zipf := rand.NewZipf(random, 1.1+random.Float64(), 1, 1+uint64(random.IntN(1000)))
			var top adminlimit.Top
			exact := make(map[string]int64)
			first, second := 1+random.IntN(5000), random.IntN(5000)
			for i := range first + second {
				if i == first {
					time.Sleep(time.Hour)
				}
				key := fmt.Sprint(zipf.Uint64())
				denials(&top, "api", key)
				exact[key]++
			}
			report := top.Report()[0]
			assert.EqualValues(t, first+second, report.Denied, "every denial is in the sum")
			assert.Less(t, report.Unlisted*100, report.Denied, "a key that is denied often is listed in a flood")
			assert.LessOrEqual(t, len(report.Keys), 200, "100 of each hour, so memory is bounded")
			last := report.Denied
			for _, k := range report.Keys {
				assert.LessOrEqual(t, k.AtLeast, exact[k.Key])
				assert.LessOrEqual(t, exact[k.Key], k.AtLeast+report.Unlisted)
				assert.LessOrEqual(t, k.AtLeast, last, "the most denied are first")
				last = k.AtLeast
				delete(exact, k.Key)
			}
			for key, n := range exact {
				assert.LessOrEqual(t, n, report.Unlisted, "%s is not listed", key)
			}
		})
	}
}

func TestDenialsCountForOneToTwoHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var top adminlimit.Top
		assert.Empty(t, top.Report())
		began := time.Now().UTC().Truncate(time.Second)
		denials(&top, "api", "ann")
		time.Sleep(time.Hour - time.Nanosecond)
		denials(&top, "api", "ann")
		time.Sleep(time.Hour)
		p := top.Report()[0]
		assert.Equal(t, []any{int64(2), began}, []any{p.Denied, p.From}, "both are of the hour before")
		denials(&top, "api", "bob", "ann")
		assert.EqualValues(t, 3, top.Report()[0].Keys[0].AtLeast, "both hours are added up")
		time.Sleep(time.Nanosecond)
		p = top.Report()[0]
		assert.EqualValues(t, 2, p.Denied, "the hour before ended an hour ago")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, top.Report())
	})
}

func TestShadowDenialsAndOtherOutcomes(t *testing.T) {
	var top adminlimit.Top
	for outcome := range core.OutcomeSlots + 1 {
		top.Observe(t.Context(), core.Observation{Policy: "api", Key: "k", Outcome: outcome})
	}
	denials(&top, "api", "") // of a request without a key
	p := top.Report()[0]
	assert.Equal(t, []int64{3, 1}, []int64{p.Denied, p.Shadow}, "of all outcomes, denials count, and those of shadow mode")
	require.Len(t, p.Keys, 1)
	assert.EqualValues(t, 2, p.Keys[0].AtLeast)
}

func TestKeysAndPoliciesAreBoundedAndCopied(t *testing.T) {
	var top adminlimit.Top
	long, buffer := strings.Repeat("k", 1<<20), []byte("ann")
	denials(&top, "api", long, unsafe.String(&buffer[0], len(buffer)))
	copy(buffer, "bob")
	keys := top.Report()[0].Keys
	assert.ElementsMatch(t, []string{"ann", store.Key(long)}, []string{keys[0].Key, keys[1].Key})
	for i := range 1100 {
		denials(&top, fmt.Sprint("tenant-", i), "ann")
	}
	assert.Len(t, top.Report(), 1000)
}

func TestDenialsAtOnceAreAllCounted(t *testing.T) {
	var top adminlimit.Top
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 1000 {
				denials(&top, fmt.Sprint(n%2), fmt.Sprint((i+n)%300))
				if n%100 == 0 {
					top.Report()
				}
			}
		})
	}
	all.Wait()
	for _, p := range top.Report() {
		assert.EqualValues(t, 2000, p.Denied)
	}
}
