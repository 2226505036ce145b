package report

import (
	"io"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Object is a report for programs.
type Object struct {
	output.Head

	Requests   int64    `json:"requests"`           // that were replayed
	Clients    int      `json:"clients"`            // that sent them
	From       string   `json:"from"`               // the first request, in RFC 3339
	To         string   `json:"to"`                 // the last one
	Zone       string   `json:"zone"`               // of these times, and of those in logs that have none
	Zoneless   int64    `json:"times_without_zone"` // requests whose times in the log have none
	Unreadable int64    `json:"unreadable_lines"`   // lines that can't be read
	Keyless    int64    `json:"lines_without_key"`  // lines without a key, which middleware answers with an error
	Left       int64    `json:"lines_left_out"`     // lines that -only and -skip left out
	Remarks    []string `json:"remarks"`            // what readers must know about the lines, in words
	Policies   []policy `json:"policies"`           // each of the policies that were tried, or of their plans
}

// policy is what a policy does with the requests.
type policy struct {
	Label       string       `json:"label"`               // what the text calls it
	Policy      string       `json:"policy"`              // its name
	Limits      []core.Limit `json:"limits"`              // those that were replayed
	Notes       []string     `json:"notes"`               // what can't be replayed, in words
	Requests    int64        `json:"requests"`            // of the policy, or of the plan
	Clients     int64        `json:"clients"`             // that sent them
	Denied      int64        `json:"denied"`              // denied requests
	DeniedBy    int64        `json:"denied_clients"`      // clients that were denied at least once
	ByLimit     []int64      `json:"denied_by_limit"`     // requests that each of limits had too few tokens for, without those of keys with overrides
	Never       int64        `json:"cost_above_capacity"` // denied requests that no wait helps
	Hours       []hour       `json:"hours"`               // those that have requests
	Most        []aClient    `json:"most_denied"`         // clients, the most denied first
	Longest     *longest     `json:"longest,omitempty"`   // the longest time in which all requests of a client were denied
	Share       float64      `json:"share"`               // of clients that a change must spare, such as 0.999
	SparesShare bool         `json:"spares_share"`        // the policy spares them as it is
	Changes     []aChange    `json:"changes"`             // the smallest that spare them, each on its own
}

// hour counts the requests of an hour.
type hour struct {
	Start    string `json:"start"`    // in RFC 3339
	Requests int64  `json:"requests"` // of all plans
	Denied   int64  `json:"denied"`   // of them
}

// aClient is what happened to a client.
type aClient struct {
	Key      string `json:"key"`                  // as it may be shown
	Bytes    []byte `json:"key_base64,omitempty"` // the key itself, if key is quoted
	Requests int64  `json:"requests"`             // that it sent
	Denied   int64  `json:"denied"`               // of them
}

// longest is the longest denial.
type longest struct {
	Key      string  `json:"key"`                  // whose it is
	Bytes    []byte  `json:"key_base64,omitempty"` // the key itself, if key is quoted
	From     string  `json:"from"`                 // the first denied request, in RFC 3339
	To       string  `json:"to"`                   // when a request passed, or would have
	Seconds  float64 `json:"seconds"`              // between them
	Requests int64   `json:"requests"`             // denied in this time
}

// aChange is a change of limits that spares enough clients.
type aChange struct {
	What    string       `json:"what"`           // burst, rate, rate and burst, quota, or all limits
	Limit   string       `json:"limit"`          // the limit's name; "" for all
	Factor  float64      `json:"factor"`         // how many times as much as now
	Limits  []core.Limit `json:"limits"`         // the policy's, with the change
	Denied  int64        `json:"denied"`         // requests that are still denied
	Clients int64        `json:"denied_clients"` // clients that are still denied
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	t := r.Traffic
	o := Object{
		Requests: t.Requests, Clients: len(t.Keys), From: r.stamp(t.From), To: r.stamp(t.To), Zone: r.Zone.String(), Zoneless: t.Zoneless,
		Unreadable: t.Unread.Count, Keyless: t.Keyless.Count, Left: t.Left, Remarks: append([]string{}, r.remarks()...), Policies: []policy{},
	}
	for _, outcome := range r.Outcomes {
		o.Policies = append(o.Policies, r.policy(outcome))
	}
	return output.Write(w, &o)
}

func (r *Report) policy(o *replay.Outcome) policy {
	p := policy{
		Label: o.Label, Policy: o.Policy.Name, Limits: o.Policy.Limits, Notes: append([]string{}, o.Notes...), Requests: o.Requests, Clients: o.All,
		Denied: o.Denied, DeniedBy: o.Clients, ByLimit: o.ByLimit, Never: o.Never, Hours: []hour{}, Most: []aClient{}, Share: o.Search.Share, SparesShare: o.Search.Enough,
		Changes: []aChange{},
	}
	for _, h := range o.Hours {
		if h.Requests > 0 {
			p.Hours = append(p.Hours, hour{r.stamp(h.Start), h.Requests, h.Denied})
		}
	}
	for _, c := range o.Top {
		p.Most = append(p.Most, aClient{r.Keys.Text(c.Key), r.Keys.Bytes(c.Key), c.Requests, c.Denied})
	}
	for _, c := range o.Search.Changes {
		p.Changes = append(p.Changes, aChange{c.What, c.Limit, c.Factor, c.Limits, c.Denied, c.Clients})
	}
	if l := o.Longest; l.Requests > 0 {
		p.Longest = &longest{r.Keys.Text(l.Key), r.Keys.Bytes(l.Key), r.stamp(l.From), r.stamp(l.To), l.Length().Seconds(), l.Requests}
	}
	return p
}
