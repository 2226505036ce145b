package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

var (
	allowAll     = hook.AllowAll.(func(*core.Limiter, context.Context, string) (core.Result, error))
	snapshot     = hook.Snapshot.(func(*core.Limiter) *core.Limiter)
	requireUnits = hook.Require.(func(*core.Limiter, string))
)

// Packing a Result loses nothing of it, whatever the policy and however the
// request ended.
func TestUnpackedResultIsTheSame(t *testing.T) {
	pack := hook.Pack.(func(core.Result) (hook.PackedResult, bool))
	unpack := hook.Unpack.(func(*hook.PackedResult, *core.Limiter, string) core.Result)
	one, two := []core.Limit{core.PerMinute(5)}, []core.Limit{core.PerMinute(5), core.PerDay(20)}
	for name, policy := range map[string]core.Policy{
		"one limit":     {Limits: one},
		"two limits":    {Limits: two},
		"fields":        {Limits: one, Headers: core.HeadersDraft6},
		"shadow":        {Limits: one, Shadow: true},
		"stepped":       {Limits: []core.Limit{{Capacity: 7, RefillRate: 3, RefillInterval: time.Second, Mode: core.Stepped}}},
		"aligned":       {Limits: []core.Limit{{Capacity: 7, RefillRate: 3, RefillInterval: time.Second, Mode: core.Aligned}}},
		"fails open":    {Limits: one, OnFailure: core.FailOpen},
		"fails local":   {Limits: one, OnFailure: core.FailLocal},
		"fails, shadow": {Limits: one, Shadow: true, OnFailure: core.FailLocal},
	} {
		t.Run(name, func(t *testing.T) {
			policy.Name = "api"
			var store core.Store = core.NewMemoryStore()
			if strings.HasPrefix(name, "fails") {
				store = flaky{store}
			}
			limiter := core.Must(core.NewLimiter(store, policy))
			for range 200 {
				want, err := limiter.AllowN(context.Background(), "k", rand.Int64N(9))
				require.NoError(t, err)
				packed, _ := pack(want)
				got := unpack(&packed, limiter, "k")
				require.Equal(t, fmt.Sprintf("%+v", want.Limits()), fmt.Sprintf("%+v", got.Limits()))
				require.Equal(t, public(want), public(got))
				header := func(r core.Result) http.Header { h := http.Header{}; r.WriteHeaders(h); return h }
				require.Equal(t, header(want), header(got))
			}
		})
	}
}

// public returns the exported fields of r.
func public(r core.Result) []any {
	return []any{r.Allowed, r.Remaining, r.RetryAfter, r.ResetAfter, r.Cost, r.Source, r.ShadowDenied, r.Cause}
}

// flaky is a store that answers every other request on average.
type flaky struct{ core.Store }

func (f flaky) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	if rand.IntN(2) == 0 {
		return store.Answer{}, errors.New("away")
	}
	return f.Store.Do(ctx, r)
}

func TestObserverIsToldWhatHasNoUnitsToSettle(t *testing.T) {
	ctx := context.Background()
	l, reply := watched(t, core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(9)}})
	other := limittest.Limiter(t, core.NewMemoryStore(), "other", core.PerDay(9))
	joint, err := core.AllowTogether(ctx, core.Charge{Limiter: l, Key: "a"}, core.Charge{Limiter: other, Key: "b"}, core.Charge{Limiter: l, Key: "c"})
	require.NoError(t, err)
	denied, err := l.AllowN(ctx, "a", 10)
	require.NoError(t, err)
	unsettled := hook.Unsettled.(func(context.Context, core.Result, error))
	*reply = nil
	why := errors.New("panic: no usage")
	unsettled(ctx, joint, why)
	assert.Equal(t, []core.Observation{
		{Policy: "api", Outcome: core.OutcomeUnsettled, Key: "a"}, {Policy: "api", Outcome: core.OutcomeUnsettled, Key: "c"},
	}, said(*reply))
	require.ErrorIs(t, (*reply)[0].Err, why)

	*reply = nil
	unsettled(ctx, core.Result{Parts: []core.Result{{}, denied}}, why)
	assert.Empty(t, *reply, "what took nothing needs no settlement")
}
