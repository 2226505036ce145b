package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/denied"
)

// write writes r as text.
func (r *ranking) write(w io.Writer) error {
	var b strings.Builder
	read := len(r.Replicas) - r.lost
	switch {
	case read == 0:
	case len(r.Policies) == 0:
		fmt.Fprintf(&b, "Nobody is denied by %s.\n", show.Some(int64(read), "replica"))
	}
	for i := range r.Policies {
		if err := r.Policies[i].write(&b, read); err != nil {
			return err
		}
	}
	for i := range r.InForce {
		if err := r.InForce[i].write(&b, r.most); err != nil {
			return err
		}
	}
	for _, line := range r.differences() {
		fmt.Fprintln(&b, line)
	}
	for _, pair := range r.Alike {
		fmt.Fprintf(&b, "%s and %s answer alike: if they are one process, give one of them\n", pair[0], pair[1])
	}
	if r.Mixed {
		fmt.Fprintf(&b, "Some replicas keep hashes of keys, and others keys: one client may be listed twice. %s and -keys hash add these up.\n", show.SecretVariable)
	}
	for _, a := range r.Replicas {
		if a.Error != "" {
			fmt.Fprintf(&b, "not read: %s: %s\n", a.URL, a.Error)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write writes who is denied most of a policy, by so many replicas.
func (p *ranked) write(w io.Writer, replicas int) error {
	shadow := ""
	if p.Shadow > 0 {
		shadow = fmt.Sprintf(" (%s by shadow mode alone, so allowed)", show.Count(p.Shadow))
	}
	_, _ = fmt.Fprintf(w, "%s: %s denied%s by %s %s\n", show.Text(p.Policy.Policy), show.Count(p.Denied), shadow, show.Some(int64(replicas), "replica"), p.span())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range p.Listed {
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\n", k.Key.Key, times(k.Key), shares(k.Key, p.Denied))
	}
	if err := t.Flush(); err != nil {
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
