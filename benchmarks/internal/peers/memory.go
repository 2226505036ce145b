package peers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/didip/tollbooth/v8"
	tollboothlimiter "github.com/didip/tollbooth/v8/limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Memory is a limiter whose buckets live in this process.
type Memory struct {
	Name string
	New  func(Limit) (Decide, error)
}

// Names of contenders.
const (
	XTime     = "x/time/rate + sync.Map"
	GoLimiter = "sethvargo/go-limiter"
)

// InMemory are the limiters in memory, each without a bound on its keys or with a bound no case meets.
var InMemory = []Memory{
	{Library, MemoryDecider},
	{XTime, newXTime},
	{GoLimiter, newSethvargo},
	{"throttled", newThrottledMemory},
	{"ulule/limiter", newUluleMemory},
	{"tollbooth", newTollbooth},
}

// MemoryDecider decides by this library in memory. In memory a denied key needs no deny cache.
func MemoryDecider(l Limit) (Decide, error) {
	limiter, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "api", Limits: []core.Limit{l.core()}, OnFailure: core.FailClosed,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		res, err := limiter.AllowN(ctx, key, 1)
		if err == nil && res.Source != core.FromStore {
			err = fmt.Errorf("decided by %v, not by the store: %w", res.Source, res.Cause)
		}
		return res.Allowed, err
	}, nil
}

// newXTime is what services write by hand.
func newXTime(l Limit) (Decide, error) {
	var limiters sync.Map
	every := rate.Every(l.perToken())
	return func(_ context.Context, key string) (bool, error) {
		if found, ok := limiters.Load(key); ok {
			return found.(*rate.Limiter).Allow(), nil
		}
		found, _ := limiters.LoadOrStore(key, rate.NewLimiter(every, l.Burst))
		return found.(*rate.Limiter).Allow(), nil
	}, nil
}

func newSethvargo(l Limit) (Decide, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.Burst), Interval: window})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}, nil
}

// newThrottledMemory has no bound: with one, throttled takes a single lock for all keys.
func newThrottledMemory(l Limit) (Decide, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	return throttledDecide(store, l)
}

func newUluleMemory(l Limit) (Decide, error) {
	return ululeDecide(limiter.New(ululememory.NewStore(), limiter.Rate{Period: window, Limit: int64(l.Burst)})), nil
}

func newTollbooth(l Limit) (Decide, error) {
	limiter := newTollboothLimiter(l)
	return func(_ context.Context, key string) (bool, error) { return !limiter.LimitReached(key), nil }, nil
}

func newTollboothLimiter(l Limit) *tollboothlimiter.Limiter {
	perSecond := float64(time.Second) / float64(l.perToken())
	return tollbooth.NewLimiter(perSecond, &tollboothlimiter.ExpirableOptions{DefaultExpirationTTL: window}).SetBurst(l.Burst)
}
