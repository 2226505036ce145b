package state

import (
	"fmt"
	"io"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// Write writes b as a sentence and a table, with its key as it may be shown.
func (b *Bucket) Write(w io.Writer, key string) error {
	_ = show.About(w, b.Policy+" "+key, b.Says)
	var t show.Table
	t.Row("  limit", "left", "capacity", "this request", "full")
	for i := range b.Limits {
		l := &b.Limits[i]
		next, full := "allowed now", "now"
		switch {
		case l.Never:
			next = "never allowed"
		case l.Denies:
			next = "allowed in " + oncall.Wait(l.retry)
		}
		if l.full > 0 {
			full = "in " + oncall.Wait(l.full)
		}
		row := []string{"  " + l.Name, show.Count(l.Left - l.Debt), show.Count(l.Capacity), next, full}
		if notes := l.notes(); notes != "" {
			row = append(row, notes)
		}
		t.Row(row...)
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if b.expires > 0 {
		_, _ = fmt.Fprintf(w, "  Redis forgets this key in %s if nobody uses it.\n", oncall.Wait(b.expires))
	}
	if b.Others > 0 {
		_ = show.Paragraph(w, 4, "  The key has "+show.Some(int64(b.Others), "limit")+" that these lack: removed, renamed, of another plan, or of another service.")
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
