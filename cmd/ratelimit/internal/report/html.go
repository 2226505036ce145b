package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

//go:embed page.html.tmpl
var pageText string

// page escapes all that comes from logs and files, by where it stands.
var page = template.Must(template.New("page").Parse(pageText))

// The size of a plot.
const (
	plotWidth  = 720.0
	plotHeight = 150.0
	maxBars    = 240 // more hours become days, months or years
)

// bar is one rectangle of a plot, with its title.
type bar struct {
	X, Y, Width, Height float64
	Title               string
}

// column is a policy in the table of the page.
type column struct {
	Label, Limits, Denied, Clients, Longest, Who string
	Notes                                        []string
	Requests, Denials                            []bar
	Most                                         string // the number at the top of the plot
	First, Last                                  string // of the plot's periods
	Top                                          []client
	Verdict                                      string
	Changes                                      []row
	Description                                  string // of the plot, for those who can't see it
}

// client is a row of those denied most.
type client struct {
	Key, Denied, Requests string
	Width                 float64 // of its bar, of 100
}

// row is a change.
type row struct{ What, Denied, Clients string }

// HTML writes the report as one page, which needs no other file and no script.
func (r *Report) HTML(w io.Writer) error {
	data := struct {
		Span, Period string
		Logs         string
		Remarks      []string
		Policies     []column
		Height       float64
		Width        float64
	}{Span: r.span(), Remarks: r.remarks(), Height: plotHeight, Width: plotWidth}
	logs := make([]string, len(r.Logs))
	for i, log := range r.Logs {
		logs[i] = show.Text(log)
	}
	data.Logs = strings.Join(logs, ", ")
	var periods []period
	periods, data.Period = r.periods(maxBars)
	for i, o := range r.Outcomes {
		data.Policies = append(data.Policies, r.column(o, i, periods, data.Period))
	}
	return page.Execute(w, data)
}

// column returns what the page shows of one policy. The plot has a bar for each
// period.
func (r *Report) column(o *replay.Outcome, number int, periods []period, each string) column {
	c := column{
		Label: o.Label, Limits: limits(o.Policy.Limits, o.Policy.Name), Notes: o.Notes, Longest: show.Duration(o.Longest.Length()), Who: r.longest(o), Verdict: r.verdict(o),
		Denied:  fmt.Sprintf("%s (%s)", show.Count(o.Denied), show.Percent(o.Denied, o.Requests)),
		Clients: fmt.Sprintf("%s (%s)", show.Count(o.Clients), show.Percent(o.Clients, o.All)),
		First:   periods[0].name, Last: periods[len(periods)-1].name,
	}
	most, worst := int64(1), 0
	for i, p := range periods {
		most = max(most, p.requests)
		if p.denied[number] > periods[worst].denied[number] {
			worst = i
		}
	}
	c.Most = show.Count(most)
	c.Description = fmt.Sprintf("Requests and denied requests by %s. Most were denied in the %s of %s: %s of %s.", each, each, periods[worst].name,
		show.Count(periods[worst].denied[number]), show.Count(periods[worst].requests))
	width := plotWidth / float64(len(periods))
	gap := min(2, width/5)
	for i, p := range periods {
		if p.requests == 0 {
			continue
		}
		title := fmt.Sprintf("%s: %s, %s denied", p.name, show.Some(p.requests, "request"), show.Count(p.denied[number]))
		draw := func(n int64) bar {
			height := plotHeight * float64(n) / float64(most)
			return bar{float64(i) * width, plotHeight - height, width - gap, height, title}
		}
		c.Requests = append(c.Requests, draw(p.requests))
		if p.denied[number] > 0 {
			c.Denials = append(c.Denials, draw(p.denied[number]))
		}
	}
	for _, t := range o.Top {
		c.Top = append(c.Top, client{r.Keys.Text(t.Key), show.Count(t.Denied), show.Count(t.Requests),
			100 * float64(t.Denied) / float64(t.Requests)})
	}
	for _, ch := range o.Search.Changes {
		c.Changes = append(c.Changes, row{change(ch, o.Policy.Name), show.Count(ch.Denied), show.Count(ch.Clients)})
	}
	return c
}
