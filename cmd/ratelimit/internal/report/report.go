// Package report writes what a replay found: as text, as JSON, and as a page.
package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Report is a replay of some traffic through one or more policies.
type Report struct {
	Traffic  *replay.Traffic
	Outcomes []*replay.Outcome
	Keys     show.Keys
	Zone     *time.Location
	Logs     []string // names of files
}

// at is an instant in the report's zone.
func (r *Report) at(micros int64) string { return show.Instant(time.UnixMicro(micros).In(r.Zone)) }

// span says how much traffic there is.
func (r *Report) span() string {
	t := r.Traffic
	return fmt.Sprintf("%s of %s, %s to %s %s", show.Some(t.Requests, "request"), show.Some(int64(len(t.Keys)), "client"), r.at(t.From), r.at(t.To), r.Zone)
}

// remarks are what readers must know about the lines.
func (r *Report) remarks() []string { return append(r.unplayed(), r.readAs()...) }

// unplayed is which lines were not played, and why.
func (r *Report) unplayed() (list []string) {
	t := r.Traffic
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if t.Left > 0 {
		add("%s left out by -only and -skip", show.Some(t.Left, "line"))
	}
	if p := t.Unread; p.Count > 0 {
		text := ""
		if p.Text != "" && !r.Keys.Hidden() {
			text = ": " + show.Text(p.Text)
		}
		add("%s can't be read; the first is %s:%d: %s%s", show.Some(p.Count, "line"), p.File, p.Line, p.Why, text)
	}
	if p := t.Keyless; p.Count > 0 {
		why := ": " + p.Why
		if r.Keys.Hidden() { // it can have the value
			why = ""
		}
		add("%s without a key, which middleware answers with an error; the first is %s:%d%s", show.Some(p.Count, "line"), p.File, p.Line, why)
	}
	for _, err := range t.Broken {
		add("the rest of a file can't be read: %v", err)
	}
	return list
}

// readAs is how the lines that were played were read.
func (r *Report) readAs() (list []string) {
	t := r.Traffic
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if t.Denied > 0 {
		add("%s have status 429 in the log already: they count like the others, though clients send some of them only because they were denied", show.Some(t.Denied, "request"))
	}
	if t.Zoneless > 0 {
		add("the times of %s have no zone, and are read as %s (see -zone)", show.Some(t.Zoneless, "request"), r.Zone)
	}
	if t.Twice > 0 {
		add("the times of %s come twice, as the clocks of %s go back, and are read as those of one hour: too much of it may be denied", show.Some(t.Twice, "request"), r.Zone)
	}
	if t.WholeSecs {
		add("the log's times are whole seconds, so all requests of a second count as sent at once")
	}
	return list
}

// limits are the limits of an outcome's policy, as text.
func limits(list []core.Limit, policy string) string {
	var texts []string
	for _, l := range list {
		if l.Name == policy || strings.HasPrefix(l.Name, policy+"-") {
			l.Name = "" // the library has made it
		}
		texts = append(texts, l.String())
	}
	return strings.Join(texts, ", ")
}

// longest says who was denied for the longest time.
func (r *Report) longest(o *replay.Outcome) string {
	if o.Longest.Requests == 0 {
		return "none"
	}
	return fmt.Sprintf("%s, %s: %s from %s", show.Duration(o.Longest.Length()), show.Some(o.Longest.Requests, "request"), r.Keys.Text(o.Longest.Key), r.at(o.Longest.From))
}

// change says what to change.
func change(c replay.Change, policy string) string {
	var changed []core.Limit
	for _, i := range c.Changed {
		changed = append(changed, c.Limits[i])
	}
	name := c.Limit
	if len(c.Limits) == 1 || name == "" {
		name = ""
	} else {
		name = " of " + strconv.Quote(name)
	}
	return fmt.Sprintf("%s%s × %s: %s", c.What, name, factor(c.Factor), limits(changed, policy))
}

// factor is f with three digits, or as a whole number if that is longer.
func factor(f float64) string {
	if f >= 100 {
		return show.Count(int64(math.Round(f)))
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// verdict introduces the changes of an outcome.
func (r *Report) verdict(o *replay.Outcome) string {
	s := o.Search
	share := strconv.FormatFloat(math.Round(1e6*100*s.Share)/1e6, 'f', -1, 64) + " % of clients"
	most := fmt.Sprintf("at most %s may be denied", show.Count(s.Most))
	if s.Most == 0 {
		most = "none may be denied"
	}
	switch {
	case !o.Searched():
		return "The search for the smallest changes is under way."
	case s.Enough && o.Clients == 0:
		return "It denies nobody."
	case s.Enough:
		return fmt.Sprintf("It spares %s as it is: %s.", share, most)
	case s.Overrode > s.Most:
		return fmt.Sprintf("No change of its limits spares %s: %s by overrides.", share, deniedBy(s.Overrode))
	case len(s.Changes) == 0:
		return fmt.Sprintf("No change of its limits spares %s: %s.", share, most)
	}
	return fmt.Sprintf("The smallest changes that spare %s (%s), each on its own:", share, most)
}

func deniedBy(n int64) string {
	if n == 1 {
		return "1 client is denied"
	}
	return show.Count(n) + " clients are denied"
}

// stamp is an instant for programs.
func (r *Report) stamp(micros int64) string {
	return time.UnixMicro(micros).In(r.Zone).Format(time.RFC3339Nano)
}
