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
func check(t *testing.T, adapter adapter, store func(option store.ClockOption) core.Store) {
	for _, group := range []struct {
		name  string
		where where
		rules func(*suite)
	}{
		{"Headers", anywhere, (*suite).headers},
		{"Denial", anywhere, (*suite).denial},
		{"RetryAfter", anywhere, (*suite).retryAfter},
		{"Methods", onHTTP, (*suite).methods},
		{"Cost", anywhere, (*suite).cost},
		{"Content", onHTTP, (*suite).content},
		{"Shadow", anywhere, (*suite).shadow},
		{"Units", anywhere, (*suite).units},
		{"Settle", anywhere, (*suite).settle},
		{"SettleAfterClient", anywhere, (*suite).settleAfterClient},
		{"SettleUndecided", anywhere, (*suite).settleUndecided},
		{"Stream", anywhere, (*suite).stream},
		{"Slots", anywhere, (*suite).slots},
		{"Together", anywhere, (*suite).jointly},
		{"Limits", anywhere, (*suite).limits},
		{"Plans", anywhere, (*suite).plans},
		{"Skip", anywhere, (*suite).skip},
		{"Refund", anywhere, (*suite).refund},
		{"RefundAfterClient", anywhere, (*suite).refundAfterClient},
		{"OnError", anywhere, (*suite).onError},
		{"FromContext", anywhere, (*suite).fromContext},
		{"Keys", anywhere, (*suite).keys},
		{"UnknownMethods", onHTTP, (*suite).unknownMethods},
		{"Agreement", onHTTP, (*suite).agreement},
		{"ClientErrors", anywhere, (*suite).clientErrors},
		{"Join", anywhere, (*suite).join},
		{"Address", ofAddresses, (*suite).address},
		{"Proxies", ofAddresses, (*suite).proxies},
		{"Peers", ofAddresses, (*suite).peers},
		{"ClientIP", ofAddresses, (*suite).clientIP},
		{"PerIP", onHTTP, (*suite).perIP},
		{"Route", onHTTP, (*suite).route},
		{"Host", onHTTP, (*suite).host},
		{"NoKey", anywhere, (*suite).noKey},
		{"Log", anywhere, (*suite).log},
		{"Stacked", anywhere, (*suite).stacked},
		{"Outage", anywhere, (*suite).outage},
		{"Context", anywhere, (*suite).context},
		{"Reuse", anywhere, (*suite).reuse},
		{"Allow", anywhere, (*suite).allow},
		{"Unread", onHTTP, (*suite).unread},
		{"Unreadable", onHTTP, (*suite).unreadable},
		{"Concurrent", anywhere, (*suite).concurrent},
		{"Mistakes", anywhere, (*suite).mistakes},
	} {
		if group.where == onHTTP && adapter.RPC || group.where == ofAddresses && absent(adapter.ByIP()) {
			continue
		}
		t.Run(group.name, func(t *testing.T) { group.rules(&suite{t, adapter, store}) })
	}
}

// suite is one adapter on one kind of store.
type suite struct {
	t     *testing.T
	kit   adapter
	store func(store.ClockOption) core.Store
}

// http runs the check of a rule of what RPC frameworks have not.
func (s *suite) http(rule string, check func(c *trial)) {
	if !s.kit.RPC {
		s.rule(rule, check)
	}
}

// fields runs the check of a rule of the header fields of the limits.
func (s *suite) fields(rule string, check func(c *trial)) {
	if !s.kit.NoFields {
		s.rule(rule, check)
	}
}

// rule runs the check of one rule on a new store.
func (s *suite) rule(rule string, check func(c *trial)) {
	s.t.Run(rule, func(t *testing.T) {
		stopped := newClock()
		store := s.store(core.WithClock(stopped.Now))
		bounded.Check(t, rule, longest, func(t testing.TB) {
			check(&trial{t: t, rule: rule, kit: s.kit, clock: stopped, store: store})
		})
	})
}
