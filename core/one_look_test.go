package core_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// meddlingStore calls meanwhile while it decides.
type meddlingStore struct {
	store.JointStore
	meanwhile func()
}

func (s *meddlingStore) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	s.meanwhile()
	return s.JointStore.Do(ctx, r)
}

func (s *meddlingStore) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	s.meanwhile()
	return s.JointStore.DoTogether(ctx, requests)
}

// A decision looks at the policy and its exceptions once. If they change while
// the store decides, the decision is as if they had changed after it.
func TestPolicyIsLookedAtOnceADecision(t *testing.T) {
	ctx := t.Context()
	const key = "ann"
	limits := []core.Limit{core.PerHour(10), core.PerDay(1000).WithName("tokens").WithUnit("tokens")}
	before := core.Policy{Name: "api", Limits: limits}
	set := func(p core.Policy) func(*core.Limiter) error {
		return func(l *core.Limiter) error { return l.SetPolicy(p) }
	}
	except := func(e core.Exceptions) func(*core.Limiter) error {
		return func(l *core.Limiter) error { return l.SetExceptions(e) }
	}
	for name, change := range map[string]func(*core.Limiter) error{
		"shadow mode":    set(core.Policy{Name: "api", Limits: limits, Shadow: true}),
		"no headers":     set(core.Policy{Name: "api", Limits: limits, Headers: core.HeadersNone, OnFailure: core.FailClosed}),
		"other limits":   set(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(3).WithName("other"), core.PerDay(700).WithName("words").WithUnit("tokens")}}),
		"an override":    set(core.Policy{Name: "api", Limits: limits, Overrides: map[string][]core.Limit{key: {core.PerSecond(77).WithName("api-1h")}}}),
		"another length": set(core.Policy{Name: "api", Limits: append([]core.Limit{core.PerMinute(5)}, limits...)}),
		"an exception":   except(core.Exceptions{Overrides: map[string][]core.Limit{key: {core.PerSecond(77).WithName("api-1h")}}}),
		"a block":        except(core.Exceptions{Blocked: []string{key}}),
	} {
		reply := func(res core.Result, err error) string {
			h := http.Header{}
			res.WriteHeaders(h)
			text := fmt.Sprintf("%v %d %v %v %v %v %v %v %v", res.Allowed, res.Remaining, res.RetryAfter, res.ResetAfter, res.Delay(), res.ShadowDenied, res.Limits(), h, err)
			for _, part := range res.Parts {
				text += fmt.Sprint(part.Allowed, part.Remaining, part.RetryAfter, part.Limits())
			}
			return text
		}
		for call, do := range map[string]func(l *core.Limiter, taken core.Result) string{
			"AllowN":         func(l *core.Limiter, _ core.Result) string { return reply(l.AllowN(ctx, key, 2)) },
			"AllowN, denied": func(l *core.Limiter, _ core.Result) string { return reply(l.AllowN(ctx, key, 8)) },
			"AllowUnits": func(l *core.Limiter, _ core.Result) string {
				return reply(l.AllowUnits(ctx, key, core.Units{"tokens": 5}))
			},
			"AllowAtMost":    func(l *core.Limiter, _ core.Result) string { return reply(l.AllowAtMost(ctx, key, 20)) },
			"Peek":           func(l *core.Limiter, _ core.Result) string { return reply(l.Peek(ctx, key)) },
			"Reserve":        func(l *core.Limiter, _ core.Result) string { return reply(l.Reserve(ctx, key, 8)) },
			"Reserve, never": func(l *core.Limiter, _ core.Result) string { return reply(l.Reserve(ctx, key, 11)) },
			"WaitN": func(l *core.Limiter, _ core.Result) string {
				ctx, cancel := context.WithDeadline(ctx, time.Now().Add(20*time.Minute))
				defer cancel()
				return fmt.Sprint(strings.Contains(fmt.Sprint(l.WaitN(ctx, key, 8)), "the wait is 30m0s"))
			},
			"AllowTogether": func(l *core.Limiter, _ core.Result) string {
				return reply(core.AllowTogether(ctx, core.Charge{Limiter: l, Key: key}, core.Charge{Limiter: l, Key: "bob", Cost: 3}, core.Charge{Limiter: l, Key: key}))
			},
			"Refund": func(l *core.Limiter, _ core.Result) string { return fmt.Sprint(l.Refund(ctx, key, 2)) },
			"Undo":   func(_ *core.Limiter, taken core.Result) string { return fmt.Sprint(taken.Undo(ctx)) },
			"Settle": func(_ *core.Limiter, taken core.Result) string {
				return fmt.Sprint(taken.Settle(ctx, core.Units{"tokens": 500}))
			},
			"Debit": func(l *core.Limiter, _ core.Result) string { return fmt.Sprint(l.Debit(ctx, key, 9)) },
		} {
			play := func(meddle bool) string {
				memory := core.NewMemoryStore(core.WithClock(limittest.NewClock().Now))
				store := &meddlingStore{JointStore: memory, meanwhile: func() {}}
				l := core.Must(core.NewLimiter(store, before))
				taken := core.Must(l.AllowUnits(ctx, key, core.Units{core.Requests: 7, "tokens": 100}))
				if meddle {
					store.meanwhile = func() { require.NoError(t, change(l)) }
				}
				return do(l, taken) + reply(core.Must(core.NewLimiter(memory, before)).Peek(ctx, key))
			}
			assert.Equal(t, play(false), play(true), "%s while the policy changes to %s", call, name)
		}
	}
}
