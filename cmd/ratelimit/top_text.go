package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// write writes r as text.
func (r *ranking) write(w io.Writer) error {
	var text strings.Builder
	b := show.Like(w, &text)
	read := len(r.Replicas) - r.lost
	switch {
	case read == 0:
	case len(r.Policies) == 0:
		_, _ = fmt.Fprintf(b, "Nobody is denied by %s.\n", show.Some(int64(read), "replica"))
	}
	for i := range r.Policies {
		if err := r.Policies[i].write(b, read); err != nil {
			return err
		}
	}
	for i := range r.InForce {
		if err := r.InForce[i].write(b, r.most); err != nil {
			return err
		}
	}
	for _, line := range r.differences() {
		_ = show.Paragraph(b, 2, line)
	}
	for _, pair := range r.Alike {
		_ = show.Paragraph(b, 2, pair[0]+" and "+pair[1]+" answer alike: if they are one process, give one of them")
	}
	if r.Mixed {
		_ = show.Paragraph(b, 2, "Some replicas keep hashes of keys, and others keys: one client may be listed twice. "+show.SecretVariable+" and -keys hash add these up.")
	}
	for _, a := range r.Replicas {
		if a.Error != "" {
			_ = show.Paragraph(b, 2, "not read: "+a.URL+": "+a.Error)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// write writes who is denied most of a policy, by so many replicas.
func (p *ranked) write(w io.Writer, replicas int) error {
	shadow := ""
	if p.Shadow > 0 {
		shadow = fmt.Sprintf(" (%s by shadow mode alone, so allowed)", show.Count(p.Shadow))
	}
	_ = show.About(w, show.Text(p.Policy.Policy), fmt.Sprintf("%s denied%s by %s %s", show.Count(p.Denied), shadow, show.Some(int64(replicas), "replica"), p.span()))
	var t show.Table
	for _, k := range p.Listed {
		t.Row("  "+oncall.ShownKey(asGiven(k.Key.Key)), times(k.Key), shares(k.Key, p.Denied))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if p.Unlisted > 0 {
		_, _ = fmt.Fprintf(w, "  each other key: at most %s\n", show.Count(p.Unlisted))
	}
	return nil
}

// times is how often a key was denied.
func times(k denied.Key) string {
	if k.AtLeast == k.AtMost {
		return show.Count(k.AtLeast)
	}
	return show.Count(k.AtLeast) + " to " + show.Count(k.AtMost)
}

// shares is a key's share of all denials.
func shares(k denied.Key, all int64) string {
	if k.AtLeast == k.AtMost {
		return show.Percent(k.AtLeast, all)
	}
	return show.Percent(k.AtLeast, all) + " to " + show.Percent(min(k.AtMost, all), all)
}
