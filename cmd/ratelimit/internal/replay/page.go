package replay

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

//go:embed page.html.tmpl
var pageText string

// page escapes all that comes from logs and files, by where it stands.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"count":   func(n int) string { return show.Count(int64(n)) },
	"instant": show.Instant,
	"visible": show.Visible,
	"limits":  limits,
}).Parse(pageText))

// Page writes the report as one HTML page, which needs no other file and no
// script.
func (r *Report) Page(w io.Writer) error { return page.Execute(w, r) }

// Busiest returns the most requests in a period, which a plot shows as a bar of
// its whole height.
func (o *Outcome) Busiest() (most int) {
	for _, p := range o.Periods {
		most = max(most, p.Requests)
	}
	return most
}
