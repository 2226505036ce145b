package limitdraw

import (
	"time"
	_ "time/tzdata" // so that the same locations are there everywhere

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Zones are locations with different clocks: of both hemispheres, with and
// without summer time, at odd offsets, and one that left out a day.
var Zones = []string{
	"UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Sydney", "America/St_Johns", "Asia/Kolkata", "Pacific/Apia",
	"Australia/Lord_Howe",
}

// Zone returns the location with a name.
func Zone(name string) *time.Location { return core.Must(time.LoadLocation(name)) }

const day = 24 * time.Hour

// CalendarLimit draws a limit by the day, week or month somewhere, at times
// with an anchor.
var CalendarLimit = rapid.Custom(func(t *rapid.T) core.Limit {
	l := core.Limit{
		Capacity: Capacity.Draw(t, "capacity"),
		RefillInterval: rapid.SampledFrom([]time.Duration{
			day, 2 * day, 7 * day, 14 * day, core.Month, core.Month, 3 * core.Month, 12 * core.Month, 1200 * core.Month,
		}).Draw(t, "interval"),
	}.In(Zone(rapid.SampledFrom(Zones).Draw(t, "zone")))
	l.RefillRate = drawRate(l.Capacity).Draw(t, "rate")
	if rapid.Bool().Draw(t, "anchored") {
		l = l.Anchored(time.Date(rapid.IntRange(1990, 2040).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")),
			rapid.SampledFrom([]int{1, 15, 28, 29, 30, 31}).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), 30, 0, 1500, l.Location))
	}
	return l
}).Filter(Valid)

// Anchor draws an anchor in a location, often near an instant at which clocks
// there are set, also to the second.
func Anchor(location *time.Location) *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		at := time.Unix(rapid.Int64Range(time.Date(1900, 1, 2, 0, 0, 0, 0, time.UTC).Unix(), time.Date(2200, 12, 30, 0, 0, 0, 0, time.UTC).Unix()).Draw(t, "near"), 0)
		if _, set := at.In(location).ZoneBounds(); !set.IsZero() && rapid.Bool().Draw(t, "clocks are set") {
			at = set.Add(time.Duration(rapid.IntRange(-150, 150).Draw(t, "minutes")) * time.Minute)
		}
		return at.Add(rapid.SampledFrom([]time.Duration{0, 0, time.Second, 1500, 1}).Draw(t, "and")).UTC()
	})
}

// AnyLimit draws a limit of any unit, perhaps on a calendar.
var AnyLimit = rapid.Custom(func(t *rapid.T) core.Limit {
	l := rapid.OneOf(Limit, Limit, CalendarLimit).Draw(t, "limit")
	if p := l.WithPenalty(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, 90 * time.Minute, 30 * day}).Draw(t, "penalty")); rapid.Bool().Draw(t, "penalized") && Valid(p) {
		l = p
	}
	return l.WithUnit(rapid.SampledFrom([]string{"", "", core.Requests, "tokens", "bytes"}).Draw(t, "unit"))
})

// HoldingLimit draws a limit that may hold what requests take: slots, or
// estimates of a unit.
var HoldingLimit = rapid.Custom(func(t *rapid.T) core.Limit {
	l := AnyLimit.Draw(t, "limit")
	hold := rapid.SampledFrom([]time.Duration{time.Millisecond, 20 * time.Millisecond, time.Second, time.Minute, 30 * day}).Draw(t, "hold")
	switch {
	case rapid.Bool().Draw(t, "slots"):
		l = core.InFlight(rapid.IntRange(1, 12).Draw(t, "slots")).WithUnit(l.Unit)
		if rapid.Bool().Draw(t, "held") {
			l = l.WithMaxHold(hold)
		}
	case l.Unit == "tokens" || l.Unit == "bytes":
		l = l.WithMaxHold(hold)
		l.Penalty = 0
	}
	return l
})
