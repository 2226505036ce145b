package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/snippet"
)

//go:embed page.html.tmpl
var pageText string

// page escapes all that comes from logs and files, by where it stands.
var page = template.Must(template.New("page").Parse(pageText))

// column is what the page shows of a policy.
type column struct {
	Label, Limits, Denied, Allowed, Clients, Longest, Who string
	Lead                                                  string // what it does, in a sentence
	Notes                                                 []string
	Top                                                   []client
	Verdict                                               string
	Changes                                               []remedy
}

// client is a row of those denied most.
type client struct {
	Key, Denied, Requests string
	Width                 float64 // of its bar, of 100
}

// remedy is a change, with what to write into a policy file.
type remedy struct{ What, Still, YAML string }

// HTML writes the report as one page, which needs no other file and no script.
func (r *Report) HTML(w io.Writer) error {
	t := r.Traffic
	data := struct {
		Logs, Requests, Clients, From, To, Zone string
		Missing                                 string // how many lines were not played
		Unplayed, ReadAs                        []string
		Policies                                []column
		Chart                                   *chart
	}{
		Requests: show.Count(t.Requests), Clients: show.Count(int64(len(t.Keys))), From: r.at(t.From), To: r.at(t.To), Zone: r.Zone.String(),
		Unplayed: r.unplayed(), ReadAs: r.readAs(), Chart: r.chart(),
	}
	if n := t.Left + t.Unread.Count + t.Keyless.Count; n > 0 {
		data.Missing = show.Count(n)
	}
	if len(t.Broken) > 0 {
		data.Missing = strings.TrimPrefix(data.Missing+", and the rest of "+show.Some(int64(len(t.Broken)), "file"), ", and ")
	}
	logs := make([]string, len(r.Logs))
	for i, log := range r.Logs {
		logs[i] = show.Text(log)
	}
	data.Logs = strings.Join(logs, ", ")
	for _, o := range r.Outcomes {
		data.Policies = append(data.Policies, r.column(o))
	}
	return page.Execute(w, data)
}

// column returns what the page shows of one policy.
func (r *Report) column(o *replay.Outcome) column {
	c := column{
		Label: o.Label, Limits: limits(o.Policy.Limits, o.Policy.Name), Lead: lead(o), Notes: o.Notes,
		Longest: show.Duration(o.Longest.Length()), Who: r.longest(o), Verdict: r.verdict(o),
		Allowed: show.Count(o.Requests - o.Denied),
		Denied:  fmt.Sprintf("%s (%s)", show.Count(o.Denied), show.Percent(o.Denied, o.Requests)),
		Clients: fmt.Sprintf("%s (%s)", show.Count(o.Clients), show.Percent(o.Clients, o.All)),
	}
	for _, t := range o.Top {
		c.Top = append(c.Top, client{r.Keys.Text(t.Key), show.Count(t.Denied), show.Count(t.Requests),
			100 * float64(t.Denied) / float64(t.Requests)})
	}
	for _, ch := range o.Search.Changes {
		still := "Then nobody is denied."
		if ch.Denied > 0 {
			still = fmt.Sprintf("Then %s of %s are still denied.", show.Some(ch.Denied, "request"), show.Some(ch.Clients, "client"))
		}
		c.Changes = append(c.Changes, remedy{change(ch, o.Policy.Name), still, snippet.YAML(ch.Given, o.Plan)})
	}
	return c
}

// lead is what a policy does, in a sentence.
func lead(o *replay.Outcome) string {
	requests := show.Some(o.Requests, "request")
	switch {
	case o.Denied == 0:
		return fmt.Sprintf("%s denies none of %s.", o.Label, requests)
	case o.Clients > 1:
		return fmt.Sprintf("%s denies %s of %s, from %s of %s.", o.Label, show.Count(o.Denied), requests, show.Count(o.Clients), show.Some(o.All, "client"))
	case o.Denied == 1:
		return fmt.Sprintf("%s denies 1 of %s.", o.Label, requests)
	}
	return fmt.Sprintf("%s denies %s of %s, all from one client.", o.Label, show.Count(o.Denied), requests)
}
