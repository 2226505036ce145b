package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// A new version of a service meets the state that the old one stored.
var deployRules = []storeRule{
	{"an added limit starts full, the others keep their tokens", limitAdded},
	{"a removed limit leaves the others alone", limitRemoved},
	{"reordered limits keep their own tokens", limitsReordered},
	{"a limit under another name is another bucket", limitRenamed},
	{"two versions of a policy side by side both hold", versionsSideBySide},
	{"a changed interval keeps the tokens", intervalChanged},
	{"a changed mode keeps the tokens", modeChanged},
	{"limits given per request share the policy's bucket", limitsPerRequest},
	{"an override changes the capacity of one key", overrideRaises},
	{"an override holds beside processes that do not have it yet", overrideBesideOld},
}

// left checks how many tokens each limit has, in order.
func (s *subject) left(l *core.Limiter, rule string, want ...int64) {
	s.Helper()
	limits := s.take(l, 0).Limits()
	if len(limits) != len(want) {
		s.Fatalf("%s: the result has %d limits, want %d", rule, len(limits), len(want))
	}
	for i, limit := range limits {
		if limit.Remaining != want[i] {
			s.Errorf("%s: limit %d, %q, has %d tokens left, want %d", rule, i, limit.Limit.Name, limit.Remaining, want[i])
		}
	}
}

func limitAdded(s *subject) {
	minute, hour, day := core.PerMinute(10).WithName("minute"), core.PerHour(100).WithName("hour"), core.PerDay(500).WithName("day")
	s.grants(s.limiter(minute), 10, 0, "before")
	two := s.limiter(hour, minute)
	s.left(two, "a second limit starts full", 100, 0)
	s.clock.move(time.Minute)
	s.grants(two, 10, 0, "both take")
	s.left(s.limiter(hour, minute, day), "a third limit starts full", 90, 0, 500)
}

func limitRemoved(s *subject) {
	minute, hour, day := core.PerMinute(10).WithName("minute"), core.PerHour(100).WithName("hour"), core.PerDay(500).WithName("day")
	s.grants(s.limiter(minute, hour, day), 7, 3, "before")
	s.left(s.limiter(minute, day), "the middle one of three limits is removed", 3, 493)
	s.grants(s.limiter(minute, day), 1, 2, "the rest go on")
	s.left(s.limiter(day), "one is left", 492)
}

func limitsReordered(s *subject) {
	a, b, c := core.PerMinute(10), core.PerHour(100), core.PerDay(500)
	s.grants(s.limiter(a, b, c), 7, 3, "before")
	s.left(s.limiter(c, a, b), "a limit without a name is identified by its interval", 493, 3, 93)
	s.grants(s.limiter(b, c, a), 1, 2, "in any order")
	s.left(s.limiter(a, b, c), "and back", 2, 92, 492)
}

func versionsSideBySide(s *subject) {
	day := func(name string) core.Limit { return core.PerDay(2).WithName(name) }
	old, renamed := s.limiter(day("a"), day("b")), s.limiter(day("c"), day("d"))
	granted := 0
	for range 20 {
		for _, l := range []*core.Limiter{old, renamed} {
			if s.take(l, 1).Allowed {
				granted++
			}
		}
	}
	if granted != 4 {
		s.Errorf("two versions of a policy, one after the other again and again, granted %d tokens of 2 each: neither may forget the other's limits", granted)
	}
}

func limitRenamed(s *subject) {
	day := func(name string) core.Limit { return core.PerDay(100).WithName(name) }
	a, c, two := s.limiter(day("a")), s.limiter(day("c")), s.limiter(day("d"), day("e"))
	s.grants(a, 99, 1, "under one name")
	s.grants(c, 1, 99, "another name starts full")
	s.grants(two, 1, 99, "and so do two others")
	s.holds(a, 1, "the first name keeps its own tokens all along")
	s.grants(s.limiter(core.PerHour(10)), 4, 6, "without a name")
	s.holds(s.limiter(core.PerHour(10).WithName("api")), 6, "a sole limit has its policy's name")
}

func intervalChanged(s *subject) {
	s.grants(s.limiter(core.PerHour(10)), 10, 0, "10 an hour")
	s.denies(s.limiter(core.PerMinute(10)), 1, 0, 6*time.Second, "10 a minute go on with the hour's tokens")
	a, b := core.PerHour(10).WithName("a"), core.PerDay(100).WithName("b")
	s.grants(s.limiterOf("two", a, b), 4, 6, "before")
	a.RefillInterval = time.Minute
	s.left(s.limiterOf("two", a, b), "a named limit keeps its tokens when its interval changes", 6, 96)
}

func modeChanged(s *subject) {
	for _, mode := range modes {
		s.grants(s.limiterOf(mode.String(), core.PerDay(10)), 10, 0, "Continuous")
		s.holds(s.limiterOf(mode.String(), core.PerDay(10).WithMode(mode)), 0, "an empty bucket stays empty in mode "+mode.String())
	}
}

func limitsPerRequest(s *subject) {
	free := s.limiter(core.PerHour(10))
	s.grants(free, 4, 6, "the policy's own limit")
	paid, err := free.WithLimits(core.PerHour(100))
	s.no(err)
	s.grants(paid, 1, 95, "WithLimits goes on with what was used")
	s.holds(free, 5, "and so does the policy")
}

func overrideRaises(s *subject) {
	l := s.limiter(core.PerHour(10))
	policy := func(limit ...core.Limit) core.Policy {
		return core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10)}, OnFailure: core.FailClosed, Overrides: map[string][]core.Limit{key: limit}}
	}
	s.grants(l, 10, 0, "the policy's own limit")
	s.denies(l, 1, 0, 6*time.Minute, "and no more")
	s.no(l.SetPolicy(policy(core.PerHour(15))))
	s.grants(l, 4, 1, "an override of 15 adds 5 tokens, also to a key that was denied a moment ago")
	s.holds(l, 1, "and adds them once")
	s.no(l.SetPolicy(policy(core.PerHour(1000))))
	s.grants(l, 1, 985, "a higher one adds what is more")
	s.no(l.SetPolicy(policy(core.PerHour(3))))
	s.denies(l, 1, 0, 20*time.Minute, "15 are used, so nothing is left under a lower one, and its own rate counts")
}

func overrideBesideOld(s *subject) {
	before, after := s.limiter(core.PerHour(10)), s.limiter(core.PerHour(10))
	s.no(after.SetPolicy(core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(10)}, OnFailure: core.FailClosed,
		Overrides: map[string][]core.Limit{key: {core.PerHour(30)}}}))
	s.grants(before, 1, 9, "a process without the override")
	s.grants(after, 2, 27, "one with the override has all that was not taken")
	s.grants(before, 3, 4, "one without has what was not taken of its own capacity")
	s.grants(after, 2, 22, "and so on")
	s.grants(before, 2, 0, "until its capacity is used up")
	s.grants(after, 14, 6, "the override has more")
	s.denies(before, 1, 0, 6*time.Minute, "which leaves no debt elsewhere")
	s.grants(after, 6, 0, "in the end both have taken as much as the override allows")
	s.denies(before, 1, 0, 6*time.Minute, "and no more")
}
