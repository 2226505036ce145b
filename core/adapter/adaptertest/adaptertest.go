// Package adaptertest checks that an adapter for a web framework behaves as the
// adapters of this module do.
//
// An adapter describes itself in a [Kit] and calls [Run] once for each kind of
// store:
//
//	func TestConformance(t *testing.T) {
//		adaptertest.Run(t, kit, func(option store.ClockOption) core.Store {
//			return core.NewMemoryStore(option)
//		})
//	}
//
// Every subtest has the name of the rule that it checks, and its failures
// repeat the rule. Requests are real HTTP over connections in memory, so a case
// can choose the address of the connection's peer. A check that hangs in the
// adapter fails its rule after a minute.
//
// See [docs/adapters.md].
//
// [docs/adapters.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/adapters.md
package adaptertest

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bounded"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Run checks the adapter that kit describes. store returns a new, empty store
// with the given clock. Run calls it for every case. The clock stands still
// unless the case moves it, so no case waits.
func Run[C any, K ~func(C) (string, error), O any, R ~struct {
	Limiter *core.Limiter
	Key     K
}, M any](t *testing.T, kit Kit[C, K, O, R, M], store func(option store.ClockOption) core.Store) {
	check(t, kit.adapter(), store)
}

// where says where a group of rules makes sense.
type where int

const (
	anywhere    where = iota
	onHTTP            // they speak of what RPC frameworks have not
	ofAddresses       // they speak of clients' addresses
)

// check runs the groups of rules.
func check[K, O any](t *testing.T, adapter adapter[K, O], store func(option store.ClockOption) core.Store) {
	for _, group := range []struct {
		name  string
		where where
		rules func(*suite[K, O])
	}{
		{"Headers", anywhere, (*suite[K, O]).headers},
		{"Denial", anywhere, (*suite[K, O]).denial},
		{"RetryAfter", anywhere, (*suite[K, O]).retryAfter},
		{"Methods", onHTTP, (*suite[K, O]).methods},
		{"Cost", anywhere, (*suite[K, O]).cost},
		{"Content", onHTTP, (*suite[K, O]).content},
		{"Shadow", anywhere, (*suite[K, O]).shadow},
		{"Units", anywhere, (*suite[K, O]).units},
		{"Settle", anywhere, (*suite[K, O]).settle},
		{"SettleAfterClient", anywhere, (*suite[K, O]).settleAfterClient},
		{"SettleUndecided", anywhere, (*suite[K, O]).settleUndecided},
		{"Stream", anywhere, (*suite[K, O]).stream},
		{"Slots", anywhere, (*suite[K, O]).slots},
		{"Together", anywhere, (*suite[K, O]).jointly},
		{"Limits", anywhere, (*suite[K, O]).limits},
		{"Plans", anywhere, (*suite[K, O]).plans},
		{"Skip", anywhere, (*suite[K, O]).skip},
		{"Refund", anywhere, (*suite[K, O]).refund},
		{"RefundAfterClient", anywhere, (*suite[K, O]).refundAfterClient},
		{"OnError", anywhere, (*suite[K, O]).onError},
		{"FromContext", anywhere, (*suite[K, O]).fromContext},
		{"Keys", anywhere, (*suite[K, O]).keys},
		{"UnknownMethods", onHTTP, (*suite[K, O]).unknownMethods},
		{"Agreement", onHTTP, (*suite[K, O]).agreement},
		{"ClientErrors", anywhere, (*suite[K, O]).clientErrors},
		{"Join", anywhere, (*suite[K, O]).join},
		{"Address", ofAddresses, (*suite[K, O]).address},
		{"Proxies", ofAddresses, (*suite[K, O]).proxies},
		{"Peers", ofAddresses, (*suite[K, O]).peers},
		{"ClientIP", ofAddresses, (*suite[K, O]).clientIP},
		{"PerIP", onHTTP, (*suite[K, O]).perIP},
		{"Route", onHTTP, (*suite[K, O]).route},
		{"Host", onHTTP, (*suite[K, O]).host},
		{"NoKey", anywhere, (*suite[K, O]).noKey},
		{"Log", anywhere, (*suite[K, O]).log},
		{"Stacked", anywhere, (*suite[K, O]).stacked},
		{"Outage", anywhere, (*suite[K, O]).outage},
		{"Context", anywhere, (*suite[K, O]).context},
		{"Reuse", anywhere, (*suite[K, O]).reuse},
		{"Allow", anywhere, (*suite[K, O]).allow},
		{"Unread", onHTTP, (*suite[K, O]).unread},
		{"Unreadable", onHTTP, (*suite[K, O]).unreadable},
		{"Concurrent", anywhere, (*suite[K, O]).concurrent},
		{"Mistakes", anywhere, (*suite[K, O]).mistakes},
	} {
		if group.where == onHTTP && adapter.RPC || group.where == ofAddresses && adapter.absent(adapter.ByIP()) {
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

// fields runs the check of a rule of the header fields of the limits.
func (s *suite[K, O]) fields(rule string, check func(c *trial[K, O])) {
	if !s.kit.NoFields {
		s.rule(rule, check)
	}
}

// rule runs the check of one rule on a new store.
func (s *suite[K, O]) rule(rule string, check func(c *trial[K, O])) {
	s.t.Run(rule, func(t *testing.T) {
		stopped := newClock()
		store := s.store(core.WithClock(stopped.Now))
		bounded.Check(t, rule, longest, func(t testing.TB) {
			check(&trial[K, O]{t: t, rule: rule, kit: s.kit, clock: stopped, store: store})
		})
	})
}
