package storetest

import (
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var calendarRules = []storeRule{
	{"months are those of the calendar", monthsOfTheCalendar},
	{"days are those of a place", daysOfAPlace},
	{"a debt to a calendar is paid by its periods", debtToACalendar},
}

// refillsAt checks that a bucket of 10 a period is used up, and has 10 again at
// an instant and not before.
func (s *subject) refillsAt(l *core.Limiter, at time.Time) {
	s.Helper()
	s.no(l.Reset(s.Context(), key))
	s.grants(l, 10, 0, "a quota of 10")
	s.denies(l, 1, 0, at.Sub(s.clock.Now()), "a quota comes back when the next period begins")
	s.clock.at(at.Add(-time.Microsecond))
	s.denies(l, 1, 0, time.Microsecond, "a quota does not come back before")
	s.clock.at(at)
	s.grants(l, 10, 0, "a quota comes back at once")
	s.clock.at(at.Add(time.Hour))
	if s.take(l, 1).Allowed {
		s.Error("a quota comes back once in a period")
	}
}

func monthsOfTheCalendar(s *subject) {
	l := s.limiter(core.PerMonth(10))
	for month := time.April; month < time.April+14; month++ { // with a February
		s.refillsAt(l, time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC))
	}
	s.clock.at(time.Date(2028, time.January, 30, 0, 0, 0, 0, time.UTC))
	l = s.limiterOf("from the 31st", core.PerMonth(10).Anchored(time.Date(2024, time.May, 31, 0, 0, 0, 0, time.UTC)))
	for _, begin := range []time.Time{
		time.Date(2028, time.January, 31, 0, 0, 0, 0, time.UTC), time.Date(2028, time.February, 29, 0, 0, 0, 0, time.UTC),
		time.Date(2028, time.March, 31, 0, 0, 0, 0, time.UTC), time.Date(2028, time.April, 30, 0, 0, 0, 0, time.UTC),
	} {
		s.refillsAt(l, begin)
	}
}

func daysOfAPlace(s *subject) {
	// Days begin at 17:00 UTC, which is midnight there.
	l := s.limiter(core.PerDay(10).In(time.FixedZone("UTC+7", 7*60*60)))
	for day := range 3 {
		s.refillsAt(l, time.Date(2026, time.March, 4+day, 17, 0, 0, 0, time.UTC))
	}
}

func debtToACalendar(s *subject) {
	l := s.limiter(core.PerMonth(10))
	s.no(l.Debit(s.Context(), key, 35))
	at := time.Date(2026, time.June, 1, 0, 0, 0, 0, time.UTC) // the third period brings the fifth token
	s.denies(l, 5, 0, at.Sub(s.clock.Now()), "a debt of 25 and 5 tokens take three months")
	s.clock.at(at)
	s.grants(l, 5, 0, "a debt is paid")
}
