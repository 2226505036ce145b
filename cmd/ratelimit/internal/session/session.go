// Package session reads an access log once, and replays it through one limit
// after the other: what the site's page of replays does.
package session

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/report"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// Options are how a log is read: each is the flag of its name of the command
// replay, and means its default if it is empty.
type Options struct {
	Key    string `json:"key"`
	Format string `json:"format"`
	Time   string `json:"time"` // -field time=
	Only   string `json:"only"`
	Skip   string `json:"skip"`
	Zone   string `json:"zone"`
}

// Session is a log that was read.
type Session struct{ log report.Report }

// Requests and Clients are how many the log has.
func (s *Session) Requests() int64 { return s.log.Traffic.Requests }
func (s *Session) Clients() int    { return len(s.log.Traffic.Keys) }

// Read reads a log. Tick is called now and then, with the lines that were read.
// If it returns an error, Read ends with that.
func Read(name string, log io.Reader, o Options, tick func(lines int64) error) (*Session, error) {
	or := func(text, other string) string {
		if text = strings.TrimSpace(text); text == "" {
			return other
		}
		return text
	}
	zone, err := accesslog.ParseZone(or(o.Zone, "UTC"))
	if err != nil {
		return nil, fmt.Errorf("-zone %w", err)
	}
	options := replay.Options{Log: accesslog.Options{Format: or(o.Format, "auto"), Fields: make(map[string]string), Zone: zone}, Key: or(o.Key, "ip")}
	if !slices.Contains(accesslog.Formats, options.Log.Format) {
		return nil, fmt.Errorf("-format %q must be auto, combined, json or csv", o.Format)
	}
	if field := or(o.Time, ""); field != "" {
		options.Log.Fields["time"] = field
	}
	for _, list := range []struct {
		text string
		to   *[]string
	}{{o.Only, &options.Only}, {o.Skip, &options.Skip}} {
		if text := or(list.text, ""); text != "" {
			*list.to = []string{text}
		}
	}
	c, err := replay.NewCollector(options)
	if err != nil {
		return nil, err
	}
	if err := c.Read(name, log, func() error { return tick(c.Lines()) }); err != nil {
		return nil, err
	}
	t, err := c.Traffic()
	if err != nil {
		return nil, t.Why(err, false)
	}
	keys, err := show.ParseKeys("show", "")
	return &Session{report.Report{Traffic: t, Keys: keys, Zone: zone, Logs: []string{name}}}, err
}

// Try is a limit to try. A rate or a burst that is above 0 replaces that of the
// text.
type Try struct {
	Limit string  `json:"limit"`
	Rate  float64 `json:"rate"`
	Burst int64   `json:"burst"`
}

// limit reads the limit.
func (t Try) limit() (core.Limit, error) {
	l, err := core.ParseLimit(t.Limit)
	if err != nil {
		return l, err
	}
	if t.Rate > 0 {
		l.RefillRate = t.Rate
	}
	if t.Burst > 0 {
		l.Capacity = t.Burst
	}
	return core.ParseLimit(l.String()) // whose mistakes it reports
}

// Replay is what a limit does with the log.
type Replay struct {
	report.Report

	limit core.Limit
}

// Decide replays the log through a limit. Step is called now and then, with how
// many requests were decided since.
func (s *Session) Decide(ctx context.Context, try Try, step func(int)) (*Replay, error) {
	l, err := try.limit()
	if err != nil {
		return nil, err
	}
	policy, label := replay.Tried(1, l)
	r := &Replay{s.log, l}
	r.Outcomes, err = r.Traffic.Decide(ctx, label, policy, step)
	return r, err
}

// Search adds the smallest changes.
func (r *Replay) Search(ctx context.Context) error {
	for _, o := range r.Outcomes {
		if err := r.Traffic.Search(ctx, o, replay.Share(replay.Spare)); err != nil {
			return err
		}
	}
	return nil
}

// Shown is what a page shows of a replay.
type Shown struct {
	Limit  string  `json:"limit"` // as the library writes it
	Rate   float64 `json:"rate"`  // tokens in an interval
	Per    string  `json:"per"`   // the interval
	Burst  int64   `json:"burst"`
	Lead   string  `json:"lead"`
	Report string  `json:"report"` // as HTML, in the style sheet report.Style
}

// Shown returns what there is so far.
func (r *Replay) Shown() (Shown, error) {
	var b strings.Builder
	err := r.Fragment(&b)
	return Shown{
		Limit: r.limit.String(), Rate: r.limit.RefillRate, Burst: r.limit.Capacity, Lead: r.Lead(), Report: b.String(),
		Per: strings.TrimPrefix(core.Per(1, r.limit.RefillInterval).String(), "1/"),
	}, err
}
