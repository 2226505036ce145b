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
		http  bool // the rules speak of what RPC frameworks have not
		rules func(*suite[K, O])
	}{
		{"Headers", false, (*suite[K, O]).headers},
		{"Denial", false, (*suite[K, O]).denial},
		{"RetryAfter", false, (*suite[K, O]).retryAfter},
		{"Methods", true, (*suite[K, O]).methods},
		{"Cost", false, (*suite[K, O]).cost},
		{"Content", true, (*suite[K, O]).content},
		{"Shadow", false, (*suite[K, O]).shadow},
		{"Units", false, (*suite[K, O]).units},
		{"Settle", false, (*suite[K, O]).settle},
		{"SettleAfterClient", false, (*suite[K, O]).settleAfterClient},
		{"SettleUndecided", false, (*suite[K, O]).settleUndecided},
		{"Stream", false, (*suite[K, O]).stream},
		{"Slots", false, (*suite[K, O]).slots},
		{"Together", false, (*suite[K, O]).jointly},
		{"Limits", false, (*suite[K, O]).limits},
		{"Skip", false, (*suite[K, O]).skip},
		{"Refund", false, (*suite[K, O]).refund},
		{"RefundAfterClient", false, (*suite[K, O]).refundAfterClient},
		{"OnError", false, (*suite[K, O]).onError},
		{"FromContext", false, (*suite[K, O]).fromContext},
		{"Keys", false, (*suite[K, O]).keys},
		{"UnknownMethods", true, (*suite[K, O]).unknownMethods},
		{"Agreement", true, (*suite[K, O]).agreement},
		{"ClientErrors", false, (*suite[K, O]).clientErrors},
		{"Join", false, (*suite[K, O]).join},
		{"Address", false, (*suite[K, O]).address},
		{"Proxies", false, (*suite[K, O]).proxies},
		{"Peers", false, (*suite[K, O]).peers},
		{"PerIP", true, (*suite[K, O]).perIP},
		{"Route", true, (*suite[K, O]).route},
		{"Host", true, (*suite[K, O]).host},
		{"NoKey", false, (*suite[K, O]).noKey},
		{"Log", false, (*suite[K, O]).log},
		{"Stacked", false, (*suite[K, O]).stacked},
		{"Outage", false, (*suite[K, O]).outage},
		{"Context", false, (*suite[K, O]).context},
		{"Reuse", false, (*suite[K, O]).reuse},
		{"Allow", false, (*suite[K, O]).allow},
		{"Unread", true, (*suite[K, O]).unread},
		{"Unreadable", true, (*suite[K, O]).unreadable},
		{"Concurrent", false, (*suite[K, O]).concurrent},
		{"Mistakes", false, (*suite[K, O]).mistakes},
	} {
		if group.http && adapter.RPC {
			continue
		}
		t.Run(group.name, func(t *testing.T) { group.rules(&suite[K, O]{t, adapter, store}) })
	}
}

// suite is one adapter on one kind of store.
type suite[K, O any] struct {
	t     *testing.T
	kit   adapter[K, O]
	store func(store.ClockOption) core.Store
}

// http runs the check of a rule of what RPC frameworks have not.
func (s *suite[K, O]) http(rule string, check func(c *trial[K, O])) {
	if !s.kit.RPC {
		s.rule(rule, check)
	}
}

// rule runs the check of one rule on a new store.
func (s *suite[K, O]) rule(rule string, check func(c *trial[K, O])) {
	s.t.Run(rule, func(t *testing.T) {
		stopped := newClock()
		check(&trial[K, O]{t: t, rule: rule, kit: s.kit, clock: stopped, store: s.store(core.WithClock(stopped.Now))})
	})
}
