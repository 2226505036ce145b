// Package adaptertest checks that an adapter for a web framework behaves as the adapters of this module do.
//
// An adapter describes itself in a [Kit] and calls [Run] once for each kind of store:
//
//	func TestConformance(t *testing.T) {
//		adaptertest.Run(t, kit, func(option store.ClockOption) core.Store {
//			return core.NewMemoryStore(option)
//		})
//	}
//
// Every subtest has the name of the rule that it checks, and its failures repeat the rule. Requests are real HTTP over
// connections in memory, so a case can choose the address of the connection's peer.
package adaptertest

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Run checks the adapter that kit describes. store returns a new, empty store with the given clock. Run calls it for
// every case. The clock stands still unless the case moves it, so no case waits.
func Run[C any, K ~func(C) (string, error), O any, R ~struct {
	Limiter *core.Limiter
	Key     K
}, M any](t *testing.T, kit Kit[C, K, O, R, M], store func(option store.ClockOption) core.Store) {
	check(t, kit.adapter(), store)
}

// check runs the groups of rules.
func check[K, O any](t *testing.T, adapter adapter[K, O], store func(option store.ClockOption) core.Store) {
	for _, group := range []struct {
		name  string
		rules func(*suite[K, O])
	}{
		{"Headers", (*suite[K, O]).headers},
		{"Denial", (*suite[K, O]).denial},
		{"RetryAfter", (*suite[K, O]).retryAfter},
		{"Methods", (*suite[K, O]).methods},
		{"Cost", (*suite[K, O]).cost},
		{"Content", (*suite[K, O]).content},
		{"Shadow", (*suite[K, O]).shadow},
		{"Units", (*suite[K, O]).units},
		{"Settle", (*suite[K, O]).settle},
		{"SettleAfterClient", (*suite[K, O]).settleAfterClient},
		{"SettleUndecided", (*suite[K, O]).settleUndecided},
		{"Stream", (*suite[K, O]).stream},
		{"Slots", (*suite[K, O]).slots},
		{"Together", (*suite[K, O]).jointly},
		{"Limits", (*suite[K, O]).limits},
		{"Skip", (*suite[K, O]).skip},
		{"Refund", (*suite[K, O]).refund},
		{"RefundAfterClient", (*suite[K, O]).refundAfterClient},
		{"OnError", (*suite[K, O]).onError},
		{"FromContext", (*suite[K, O]).fromContext},
		{"Keys", (*suite[K, O]).keys},
		{"UnknownMethods", (*suite[K, O]).unknownMethods},
		{"Agreement", (*suite[K, O]).agreement},
		{"ClientErrors", (*suite[K, O]).clientErrors},
		{"Join", (*suite[K, O]).join},
		{"Address", (*suite[K, O]).address},
		{"Proxies", (*suite[K, O]).proxies},
		{"Peers", (*suite[K, O]).peers},
		{"PerIP", (*suite[K, O]).perIP},
		{"Route", (*suite[K, O]).route},
		{"Host", (*suite[K, O]).host},
		{"NoKey", (*suite[K, O]).noKey},
		{"Log", (*suite[K, O]).log},
		{"Stacked", (*suite[K, O]).stacked},
		{"Outage", (*suite[K, O]).outage},
		{"Context", (*suite[K, O]).context},
		{"Reuse", (*suite[K, O]).reuse},
		{"Allow", (*suite[K, O]).allow},
		{"Unread", (*suite[K, O]).unread},
		{"Unreadable", (*suite[K, O]).unreadable},
		{"Concurrent", (*suite[K, O]).concurrent},
		{"Mistakes", (*suite[K, O]).mistakes},
	} {
		t.Run(group.name, func(t *testing.T) { group.rules(&suite[K, O]{t, adapter, store}) })
	}
}

// suite is one adapter on one kind of store.
type suite[K, O any] struct {
	t     *testing.T
	kit   adapter[K, O]
	store func(store.ClockOption) core.Store
}

// rule runs the check of one rule on a new store.
func (s *suite[K, O]) rule(rule string, check func(c *trial[K, O])) {
	s.t.Run(rule, func(t *testing.T) {
		stopped := newClock()
		check(&trial[K, O]{t: t, rule: rule, kit: s.kit, clock: stopped, store: s.store(core.WithClock(stopped.Now))})
	})
}
