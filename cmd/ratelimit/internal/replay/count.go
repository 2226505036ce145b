package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

const (
	day        = 24 * time.Hour
	maxPeriods = 120
	maxClients = 10 // that a report lists
)

// Periods have the first of these lengths of which few are enough.
var lengths = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day, 28 * day, 364 * day}

// counter counts what a policy decides.
type counter struct {
	*Outcome

	length  time.Duration // of a period
	clients []history
	denied  []int32 // clients that were denied
	longest denial
}

// history is what happened to a client so far.
type history struct {
	requests, denied int
	denial           denial // that it is in; without requests: none
}

// denial is a [Denial] that may still go on.
type denial struct {
	client      int32
	from, until int64 // in µs since 1970
	requests    int
}

func newCounter(t *Traffic, name string) *counter {
	c := &counter{clients: make([]history, len(t.clients)), Outcome: &Outcome{
		Name: name, Notes: []string{}, ByLimit: make(map[string]int), MostDenied: []Client{}, Changes: []Change{},
	}}
	for _, c.length = range lengths {
		if t.to().Sub(t.from().Truncate(c.length)) < maxPeriods*c.length {
			break
		}
	}
	for at := t.from().Truncate(c.length); !at.After(t.to()); at = at.Add(c.length) {
		c.Periods = append(c.Periods, Period{From: at})
	}
	return c
}

// count counts a decision.
func (c *counter) count(r request, res core.Result) {
	period, client := &c.Periods[time.UnixMicro(r.at).Sub(c.Periods[0].From)/c.length], &c.clients[r.client]
	period.Requests++
	client.requests++
	if res.Allowed {
		c.end(client, r.at)
		return
	}
	c.Denied++
	period.Denied++
	if client.denied++; client.denied == 1 {
		c.denied = append(c.denied, r.client)
	}
	for _, l := range res.Limits() {
		if l.Violated {
			c.ByLimit[l.Limit.Name]++
		}
	}
	d := &client.denial
	if d.requests++; d.requests == 1 {
		d.client, d.from = r.client, r.at
	}
	if d.until = r.at; res.RetryAfter != core.Never {
		d.until += res.RetryAfter.Microseconds()
	}
}

// end ends the denial that a client is in: at the instant at which it is
// allowed, or when it would have been before that.
func (c *counter) end(client *history, at int64) {
	d := client.denial
	client.denial = denial{}
	d.until = min(d.until, at)
	if d.requests > 0 && (c.longest.requests == 0 || d.until-d.from > c.longest.until-c.longest.from) {
		c.longest = d
	}
}

// finish sets what is known after the last request.
func (c *counter) finish(t *Traffic) {
	c.DeniedClients = len(c.denied)
	for _, number := range c.denied {
		client := &c.clients[number]
		c.end(client, math.MaxInt64)
		c.MostDenied = append(c.MostDenied, Client{show.Key(t.clients[number]), client.requests, client.denied})
	}
	slices.SortFunc(c.MostDenied, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Key, b.Key))
	})
	c.MostDenied = c.MostDenied[:min(len(c.MostDenied), maxClients)]
	if d := c.longest; d.requests > 0 {
		c.Longest = &Denial{show.Key(t.clients[d.client]), time.UnixMicro(d.from).UTC(), float64(d.until-d.from) / 1e6, d.requests}
	}
	all, requests := int64(len(t.requests)), show.Some(int64(len(t.requests)), "request")
	switch denied := int64(c.Denied); {
	case denied == 0:
		c.Verdict = fmt.Sprintf("%s denies none of %s.", c.Name, requests)
	case len(c.denied) == 1:
		c.Verdict = fmt.Sprintf("%s denies %s of %s (%s), all from one client.", c.Name, show.Count(denied), requests, show.Percent(denied, all))
	default:
		c.Verdict = fmt.Sprintf("%s denies %s of %s (%s), from %s of %s.", c.Name, show.Count(denied), requests, show.Percent(denied, all),
			show.Count(int64(c.DeniedClients)), show.Some(int64(len(t.clients)), "client"))
	}
}
