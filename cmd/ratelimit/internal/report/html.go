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

// Style is the style sheet of the page, without that of its frame.
//
//go:embed report.css
var Style string

// page escapes all that comes from logs and files, by where it stands.
var page = template.Must(template.New("page").Parse(pageText))

// shown is a report as the page has it.
type shown struct {
	Logs, Requests, Clients, From, To, Zone string

	Missing          string // how many lines were not played
	Unplayed, ReadAs []string
	Policies         []column
	Chart            *chart
	Style            template.CSS
	Inside           bool // another page, which has a title and a <main>
}

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
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r.shown()) }

// Fragment writes the report for a page that has the style sheet [Style]. Where
// the report's own page has attributes style, the fragment has data-style: a
// page whose policy forbids the former sets them by a script.
func (r *Report) Fragment(w io.Writer) error {
	s := r.shown()
	s.Inside = true
	var b strings.Builder
	if err := page.ExecuteTemplate(&b, "report", s); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.ReplaceAll(b.String(), ` style="`, ` data-style="`)) // texts have their quotes escaped
	return err
}

// Lead is what the policies do, in a sentence for each.
func (r *Report) Lead() string {
	var leads []string
	for _, o := range r.Outcomes {
		leads = append(leads, lead(o))
	}
	return strings.Join(leads, " ")
}

func (r *Report) shown() shown {
	t := r.Traffic
	data := shown{
		Requests: show.Count(t.Requests), Clients: show.Count(int64(len(t.Keys))), From: r.at(t.From), To: r.at(t.To), Zone: r.Zone.String(),
		Unplayed: r.unplayed(), ReadAs: r.readAs(), Chart: r.chart(), Style: template.CSS(Style),
	}
	if n := t.Left + t.Unread.Count + t.Keyless.Count; n > 0 {
		data.Missing = show.Count(n)
	}
	if len(t.Broken) > 0 {
		data.Missing = strings.TrimPrefix(data.Missing+", and the rest of "+show.Some(int64(len(t.Broken)), "file"), ", and ")
	}
	logs := make([]string, len(r.Logs))
	for i, log := range r.Logs {
		logs[i] = show.Visible(log)
	}
	data.Logs = strings.Join(logs, ", ")
	for _, o := range r.Outcomes {
		data.Policies = append(data.Policies, r.column(o))
	}
	return data
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
