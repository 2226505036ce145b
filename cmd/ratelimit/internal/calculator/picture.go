package calculator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Picture is what happens to the traffic.
type Picture struct {
	Says     string      `json:"says"`    // what it shows, in a sentence
	Remarks  []string    `json:"remarks"` // how it was made
	Step     float64     `json:"step"`    // how long a column is, in seconds
	StepText string      `json:"step_text"`
	From     string      `json:"from"`   // the first column's begin, if the traffic has times
	Times    []string    `json:"times"`  // when each column begins
	Counts   []int64     `json:"counts"` // requests by column
	Denied   []int64     `json:"denied"` // of them
	Left     [][]int64   `json:"left"`   // by limit: the least tokens that were left in each part of a column
	Total    int64       `json:"total"`
	Refused  int64       `json:"refused"`
	Fields   []Responses `json:"fields"` // header fields of responses
}

// Responses are the header fields of a response.
type Responses struct {
	What string `json:"what"` // which response it is
	Text string `json:"text"`
}

// parts is how many parts of a column have a number of tokens left.
const parts = 4

// run is a traffic that a limiter has decided.
type run struct {
	traffic

	counts, denied []int64
	left           [][]int64 // by limit and part
	allowed        []time.Time
	refused        int64
	fields         []Responses
	slots          bool
}

// run decides all requests, and looks at what is left between them.
func (a *asked) run() (*run, error) {
	r := &run{traffic: a.traffic, counts: make([]int64, a.traffic.steps), denied: make([]int64, a.traffic.steps), left: make([][]int64, len(a.limits)), fields: []Responses{}}
	now := r.from
	limiter, err := a.limiter(func() time.Time { return now })
	if err != nil {
		return nil, err
	}
	for i, l := range a.limits {
		r.slots = r.slots || l.Mode == core.Concurrent
		r.left[i] = make([]int64, r.steps*parts)
		for part := range r.left[i] {
			r.left[i][part] = l.Capacity
		}
	}
	next := 0
	for part := range r.steps * parts {
		end := r.from.Add(time.Duration(float64(r.step) * float64(part+1) / parts))
		for ; next < len(r.at) && r.at[next].Before(end); next++ {
			now = r.at[next]
			res, err := a.take(limiter)
			if err != nil {
				return nil, err
			}
			r.count(now, res)
			r.note(part, res)
		}
		if now = end; now.After(latest) {
			now = latest
		}
		res, err := limiter.Peek(context.Background(), client)
		if err != nil {
			return nil, err
		}
		r.note(part, res)
	}
	return r, nil
}

// note keeps the least that each limit has left in a part of a column.
func (r *run) note(part int, res core.Result) {
	for i, l := range res.Limits() {
		r.left[i][part] = min(r.left[i][part], l.Remaining)
	}
}

// count counts a decision.
func (r *run) count(at time.Time, res core.Result) {
	column := r.column(at)
	if r.counts[column]++; res.Allowed {
		if len(r.allowed) == 0 {
			r.fields = append(r.fields, Responses{"the first request: allowed", fields(http.StatusOK, res)})
		}
		r.allowed = append(r.allowed, at)
		return
	}
	if r.denied[column]++; r.refused == 0 {
		r.fields = append(r.fields, Responses{"the first denied request", fields(http.StatusTooManyRequests, res)})
	}
	r.refused++
}

// fields is the head of a response, as middleware writes it.
func fields(status int, res core.Result) string {
	h := http.Header{}
	res.WriteHeaders(h)
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\n", status, http.StatusText(status))
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(h[name], ", "))
	}
	return b.String()
}

// picture is what was decided, to draw.
func (r *run) picture() *Picture {
	p := &Picture{
		Step: r.step.Seconds(), StepText: length(r.step), Counts: r.counts, Denied: r.denied, Left: r.left,
		Total: int64(len(r.at)), Refused: r.refused, Fields: r.fields, Remarks: []string{},
	}
	for i := range r.steps {
		p.Times = append(p.Times, r.clock(time.Duration(i)*r.step))
	}
	switch allowed := p.Total - p.Refused; {
	case p.Total == 0:
		p.Says = "No requests yet."
	case p.Total == 1 && p.Refused == 0:
		p.Says = "The request is allowed."
	case p.Total == 1:
		p.Says = "The request is denied."
	case p.Refused == 0:
		p.Says = fmt.Sprintf("All %s are allowed.", show.Some(p.Total, "request"))
	case allowed == 0:
		p.Says = fmt.Sprintf("All %s are denied.", show.Some(p.Total, "request"))
	case allowed == 1:
		p.Says = fmt.Sprintf("Of %s, 1 is allowed and %s denied.", show.Some(p.Total, "request"), show.Count(p.Refused))
	default:
		p.Says = fmt.Sprintf("Of %s, %s are allowed and %s denied.", show.Some(p.Total, "request"), show.Count(allowed), show.Count(p.Refused))
	}
	if r.times {
		p.From = show.Instant(r.from.UTC()) + " UTC"
		p.Remarks = append(p.Remarks, fmt.Sprintf("The traffic was read as %s. A column is %s.", show.Some(p.Total, "time"), p.StepText))
	} else {
		p.Remarks = append(p.Remarks, fmt.Sprintf("The requests of a step of %s are spread evenly over it. The picture begins at midnight UTC on a Monday, with a full bucket.", p.StepText))
	}
	if r.slots {
		p.Remarks = append(p.Remarks, "No request releases its slot: it is free after the hold, by default a minute.")
	}
	return p
}

// clock is when something happens: since the begin of counts, or the time.
func (r *run) clock(since time.Duration) string {
	if r.times {
		return show.Instant(r.from.Add(since).UTC())
	}
	return length(since)
}

// length is a duration in words, also of less than a second.
func length(d time.Duration) string {
	if d%time.Second == 0 {
		return show.Duration(d)
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}
