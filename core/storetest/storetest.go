// Package storetest tests stores of token buckets. If you write a [core.Store],
// call [Run] from a test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, clock func() time.Time) core.Store {
//			return mystore.New(clock)
//		})
//	}
//
// See [docs/testing.md].
//
// [docs/testing.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/testing.md
package storetest

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bounded"
)

// Run checks the stores that open returns against every rule of [core.Store].
// Each rule is a subtest with the rule's name. Run calls open once for each
// rule. open returns an empty store that reads the time from clock, or skips
// the test. The clock shows dates around 2026, but in rules on the ends of its
// range. It stands still, except when a rule moves it, at times backwards, or
// lets it run.
//
// The store must keep state as [store.Request.Decide] says, at least until the
// bucket is full. It may measure that time on clock or in real time: no rule
// needs state for more than a few real seconds. A check that hangs in the store
// fails its rule after a minute.
func Run(t *testing.T, open func(t *testing.T, clock func() time.Time) core.Store) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			c := &testClock{now: start}
			r.of(t, open(t, c.Now), c, time.Minute)
		})
	}
}

// rule is one rule that stores must keep.
type rule struct {
	name  string
	check func(s *subject)
}

// of checks the rule of a store. A check that hangs fails after most.
func (r rule) of(t testing.TB, store core.Store, c *testClock, most time.Duration) {
	bounded.Check(t, r.name, most, func(t testing.TB) {
		r.check(&subject{TB: t, rule: r.name, clock: c, store: store})
	})
}

var rules = []rule{
	// One decision: take.go, penalty.go
	{"a granted request takes its cost once", grantTakesCost},
	{"a denied request takes nothing", denialTakesNothing},
	{"a peek takes nothing", peekTakesNothing},
	{"every limit gives its cost, or none does", allOrNothing},
	{"as many tokens are taken as there are", atMostTakesWhatIsThere},
	{"a request leaves its floor", floorIsLeft},
	{"a penalty is one debt, and not prolonged", penaltyOnce},
	{"twelve limits are kept, and answered apart", manyLimits},

	// Time: window.go, delays.go
	{"no window admits more than MaxIn", windowsAdmitMaxIn},
	{"RetryAfter suffices, and nothing less does", retryAfterIsExact},
	{"a bucket is full after ResetAfter, not before", resetAfterIsExact},
	{"state is kept until its last limit is full", keptUntilFull},

	// The clock: clock.go
	{"a clock set back gives, takes and stops nothing", setBackChangesNothing},
	{"a clock set back leaves slots their remaining time", setBackKeepsHolds},
	{"a period begins by the store's clock", periodsByTheClock},
	{"a clock out of range is only an error", clockOutOfRange},

	// Limits that change: change.go
	{"what was used stays used under another capacity", capacityChanges},
	{"a lower capacity makes no debt", lowerCapacity},
	{"a changed rate counts from the last write", rateChanges},
	{"limits that a version lacks keep their tokens", versionsKeepOthersTokens},

	// Tokens that are given back: back.go, reserve.go
	{"a refund fills a bucket, and no further", refundFills},
	{"a debit makes a debt, which is paid first", debitMakesDebt},
	{"an undo gives back what was taken", undoGivesBack},
	{"reservations are due in turn", reservationsInTurn},
	{"a cancel gives back what nobody reserved behind it", cancelGivesBack},

	// Holds: slots.go, estimates.go
	{"no more slots are in use than there are", slotsInUse},
	{"a released slot is free at once, and once", slotReleased},
	{"a slot comes back after MaxHold, not before", slotComesBack},
	{"Hold keeps a slot for another MaxHold", holdKeepsSlot},
	{"a lost slot is held again only if free", lostSlot},
	{"an estimate comes back after MaxHold, once", estimateComesBack},
	{"a settlement charges the use, and frees no slot", settlementCharges},

	// The interface: joint.go, atomic.go, context.go, keys.go, reset.go, state.go
	{"several keys give together, or none does", jointlyAllOrNothing},
	{"concurrent requests get exactly the capacity", exactUnderConcurrency},
	{"concurrent refunds lose nothing", refundedUnderConcurrency},
	{"concurrent requests on a running clock get MaxIn", boundedOnRunningClock},
	{"concurrent joint requests get exactly the capacity", jointUnderConcurrency},
	{"a call whose context has ended returns its error", endedContext},
	{"every policy and key has its own bucket", addressesKeptApart},
	{"a kept key is cloned", keysCloned},
	{"a reset fills its bucket, and no other", resetFills},
	{"State shows what is kept, and changes nothing", stateShows},

	// All of that in random order: history.go
	{"any history is answered as Request.Decide answers", historyAlike},
}
