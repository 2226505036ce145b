package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Text writes the report for people. Policies stand side by side.
func (r *Report) Text(w io.Writer) error {
	var text bytes.Buffer
	b := show.Like(w, &text)
	_ = show.Paragraph(b, 2, r.span())
	for _, remark := range r.remarks() {
		_ = show.Paragraph(b, 4, "  "+remark)
	}
	for _, o := range r.Outcomes {
		for _, note := range o.Notes {
			_ = show.Paragraph(b, 4, "  policy "+o.Label+": "+note)
		}
	}
	_, _ = fmt.Fprintln(b)
	r.summary(b)
	for _, o := range r.Outcomes {
		r.details(b, o)
	}
	r.hours(b)
	_, err := text.WriteTo(w)
	return err
}

// summary has a column for each policy.
func (r *Report) summary(w io.Writer) {
	rows := [][]string{{"policy"}, {"limits"}, {"denied"}, {"clients denied"}, {"longest denial"}}
	costly := []string{"denied at any time"}
	for _, o := range r.Outcomes {
		for i, cell := range []string{
			o.Label, limits(o.Policy.Limits, o.Policy.Name),
			fmt.Sprintf("%s (%s)", show.Count(o.Denied), show.Percent(o.Denied, o.Requests)),
			fmt.Sprintf("%s (%s)", show.Count(o.Clients), show.Percent(o.Clients, o.All)),
			show.Duration(o.Longest.Length()),
		} {
			rows[i] = append(rows[i], cell)
		}
		costly = append(costly, fmt.Sprintf("%s, whose cost is above the capacity", show.Count(o.Never)))
	}
	for _, o := range r.Outcomes {
		if o.Never > 0 {
			rows = append(rows, costly)
			break
		}
	}
	t := show.Table{Split: true}
	for _, row := range rows {
		t.Row(row...)
	}
	_ = t.Write(w)
}

// details are what only one policy has.
func (r *Report) details(w io.Writer, o *replay.Outcome) {
	_, _ = fmt.Fprintf(w, "\n%s\n", o.Label)
	if len(o.ByLimit) > 1 && o.Denied > 0 {
		var parts []string
		for i, n := range o.ByLimit {
			parts = append(parts, fmt.Sprintf("%s %s", o.Policy.Limits[i].Name, show.Count(n)))
		}
		_ = show.Paragraph(w, 4, "  denied by limit: "+strings.Join(parts, ", "))
	}
	if len(o.Top) > 0 {
		_ = show.Paragraph(w, 4, "  longest denial: "+r.longest(o))
		_, _ = fmt.Fprintln(w, "  denied most:")
		var t show.Table
		for _, c := range o.Top {
			t.Row("    "+r.Keys.Text(c.Key), show.Count(c.Denied), "of", show.Count(c.Requests))
		}
		_ = t.Write(w)
	}
	_ = show.Paragraph(w, 4, "  "+r.verdict(o))
	t := show.Table{Prose: true}
	for _, c := range o.Search.Changes {
		t.Row("    "+change(c, o.Policy.Name), fmt.Sprintf("still denied: %s of %s", show.Some(c.Denied, "request"), show.Some(c.Clients, "client")))
	}
	_ = t.Write(w)
}

// maxRows bounds the rows by hour. More hours become days, months or years.
const maxRows = 48

// period is an hour, a day, a month or a year.
type period struct {
	name     string
	requests int64
	denied   []int64 // by policy
}

// scales are how long periods are, and what begins their names.
var scales = []struct {
	name   string
	digits int
}{{"hour", len("2006-01-02 15:04")}, {"day", len("2006-01-02")}, {"month", len("2006-01")}, {"year", len("2006")}}

// periods returns the periods from the first request to the last one, at most
// some, and what they are.
func (r *Report) periods(most int) (list []period, scale string) {
	for _, s := range scales {
		if list, scale = r.by(s.digits), s.name; len(list) <= most {
			break
		}
	}
	return list, scale
}

// by returns the periods whose names have so many digits.
func (r *Report) by(digits int) (list []period) {
	for i, h := range r.Outcomes[0].Hours {
		name := time.UnixMicro(h.Start).In(r.Zone).Format("2006-01-02 15:04")[:digits]
		if len(list) == 0 || list[len(list)-1].name != name {
			list = append(list, period{name: name, denied: make([]int64, len(r.Outcomes))})
		}
		p := &list[len(list)-1]
		p.requests += h.Requests
		for j, o := range r.Outcomes {
			p.denied[j] += o.Hours[i].Denied
		}
	}
	return list
}

// hours has a row for each period that has requests.
func (r *Report) hours(w io.Writer) {
	list, scale := r.periods(maxRows)
	head := []string{scale + " (" + r.Zone.String() + ")", "requests"}
	for _, o := range r.Outcomes {
		name := "denied"
		if len(r.Outcomes) > 1 {
			name += " by " + o.Label
		}
		head = append(head, name)
	}
	t := show.Table{Right: true, Split: true}
	t.Row(head...)
	for _, p := range list {
		if p.requests == 0 {
			continue
		}
		row := []string{p.name, show.Count(p.requests)}
		for _, n := range p.denied {
			row = append(row, show.Count(n))
		}
		t.Row(row...)
	}
	_, _ = fmt.Fprintln(w)
	_ = t.Write(w)
}
