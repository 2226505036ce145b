package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Report is what policies do with the requests of logs.
type Report struct {
	Logs     []string   `json:"logs"`     // the names of the files
	Requests int        `json:"requests"` // that were replayed
	Clients  int        `json:"clients"`  // that sent them
	From     time.Time  `json:"from"`     // when the first request was sent
	To       time.Time  `json:"to"`       // when the last one was
	LeftOut  []LeftOut  `json:"left_out"` // lines that were not replayed
	Remarks  []string   `json:"remarks"`  // what to know about how the logs were read
	Policies []*Outcome `json:"policies"` // in the order in which they were given
}

// Outcome is what one policy does.
type Outcome struct {
	Name          string         `json:"name"`            // of the policy, or the limit that was tried
	Limits        []core.Limit   `json:"limits"`          // of the policy
	Notes         []string       `json:"notes"`           // what of the policy was not replayed
	Verdict       string         `json:"verdict"`         // what it denies, in a sentence
	Denied        int            `json:"denied"`          // requests
	DeniedClients int            `json:"denied_clients"`  // clients of which at least one request was denied
	ByLimit       map[string]int `json:"denied_by_limit"` // requests for which each limit had too few tokens
	MostDenied    []Client       `json:"most_denied"`     // up to 10 clients
	Longest       *Denial        `json:"longest_denial"`  // null if nothing was denied
	Periods       []Period       `json:"periods"`         // of equal length, from the first request to the last one
	Advice        string         `json:"advice"`          // how to spare clients, in a sentence that Changes may continue
	Changes       []Change       `json:"changes"`         // the smallest that spare them, each on its own
}

// Client is what happened to a client.
type Client struct {
	Key      string `json:"key"` // as other commands take it
	Requests int    `json:"requests"`
	Denied   int    `json:"denied"`
}

// Denial is a time in which all requests of a client were denied: from the
// first one to when it was allowed again, or would have been.
type Denial struct {
	Key      string    `json:"key"`
	From     time.Time `json:"from"`
	Seconds  float64   `json:"seconds"`
	Requests int       `json:"requests"`
}

// Period counts the requests of some minutes, hours or days.
type Period struct {
	From     time.Time `json:"from"`
	Requests int       `json:"requests"`
	Denied   int       `json:"denied"`
}

// Change is a change of a policy that spares enough clients.
type Change struct {
	Limits        []core.Limit `json:"limits"`         // all of the policy, with the change
	Denied        int          `json:"denied"`         // requests that are still denied
	DeniedClients int          `json:"denied_clients"` // clients that are still denied
}

// Text writes the report for people.
func (r *Report) Text(w *show.Writer) {
	w.Line("%s", r.Span())
	for _, remark := range r.Notes() {
		w.Line("  %s", remark)
	}
	for _, o := range r.Policies {
		w.Line("")
		o.text(w)
	}
}

// Span says how many requests there are, and of when.
func (r *Report) Span() string {
	return fmt.Sprintf("%s of %s, %s to %s UTC",
		show.Some(int64(r.Requests), "request"), show.Some(int64(r.Clients), "client"), show.Instant(r.From), show.Instant(r.To))
}

// Notes are which lines were left out, and the remarks.
func (r *Report) Notes() (list []string) {
	for _, o := range r.LeftOut {
		list = append(list, o.String())
	}
	return append(list, r.Remarks...)
}

func (o *Outcome) text(w *show.Writer) {
	w.Line("%s", o.Verdict)
	for _, note := range o.Notes {
		w.Line("  %s", note)
	}
	if len(o.ByLimit) > 1 {
		for _, name := range slices.Sorted(maps.Keys(o.ByLimit)) {
			w.Line("  by limit %s: %s", name, show.Some(int64(o.ByLimit[name]), "request"))
		}
	}
	if o.Longest != nil {
		w.Line("  longest denial: %s", o.Longest)
	}
	if len(o.MostDenied) > 0 {
		w.Line("  denied most:")
		var rows [][]string
		for _, c := range o.MostDenied {
			rows = append(rows, []string{c.Key, fmt.Sprintf("%s of %s", show.Count(int64(c.Denied)), show.Some(int64(c.Requests), "request"))})
		}
		w.Table(4, nil, rows)
	}
	if o.Advice != "" {
		w.Line("  %s", o.Advice)
	}
	for _, c := range o.Changes {
		w.Line("    %s", c)
	}
}

// String says who was denied for how long.
func (d *Denial) String() string {
	length := time.Duration(d.Seconds * float64(time.Second))
	return fmt.Sprintf("%s for %s, %s, from %s", d.Key, show.Duration(length), show.Some(int64(d.Requests), "request"), show.Instant(d.From))
}

// String is the limits of a change as text, and what is still denied.
func (c Change) String() string {
	text := limits(c.Limits)
	if c.Denied > 0 {
		text += fmt.Sprintf(" (still denies %s of %s)", show.Some(int64(c.Denied), "request"), show.Some(int64(c.DeniedClients), "client"))
	}
	return text
}

func limits(list []core.Limit) string {
	texts := make([]string, len(list))
	for i, l := range list {
		texts[i] = l.String()
	}
	return strings.Join(texts, ", ")
}
