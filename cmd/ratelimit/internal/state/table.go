package state

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// Write writes b as a sentence and a table, with its key as it may be shown.
func (b *Bucket) Write(w io.Writer, key string) error {
	_, _ = fmt.Fprintf(w, "%s %s: %s\n", b.Policy, key, b.Says)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  limit\tleft\tcapacity\tthis request\tfull")
	for i := range b.Limits {
		l := &b.Limits[i]
		passes, full := "passes now", "now"
		switch {
		case l.Never:
			passes = "never passes"
		case l.Denies:
			passes = "passes in " + oncall.Wait(l.retry)
		}
		if l.full > 0 {
			full = "in " + oncall.Wait(l.full)
		}
		notes := l.notes()
		if notes != "" {
			notes = "\t" + notes
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s%s\n", l.Name, show.Count(l.Left-l.Debt), show.Count(l.Capacity), passes, full, notes)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if b.expires > 0 {
		_, _ = fmt.Fprintf(w, "  Redis forgets this key in %s if nobody uses it.\n", oncall.Wait(b.expires))
	}
	if b.Others > 0 {
		_, _ = fmt.Fprintf(w, "  The key has %s that these lack: removed, renamed, of another plan, or of another service.\n", show.Some(int64(b.Others), "limit"))
	}
	return nil
}

// notes is what the columns leave out.
func (l *Limit) notes() string {
	var notes []string
	if l.From != "" {
		notes = append(notes, l.From)
	}
	add := func(n int64, what string) {
		if n > 0 {
			notes = append(notes, show.Count(n)+" "+what)
		}
	}
	if l.slots {
		notes = append(notes, fmt.Sprintf("%s in use", show.Some(l.InUse, "slot")))
	}
	add(l.Held, "held by estimates")
	add(l.Reserved, "reserved")
	add(l.Leased, "on lease")
	if l.Unit != "requests" {
		notes = append(notes, "counts "+l.Unit)
	}
	if l.Changed != "" {
		notes = append(notes, l.Changed)
	}
	return strings.Join(notes, ", ")
}
