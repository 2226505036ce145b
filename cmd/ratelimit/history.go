package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var historyCommand = cli.Command{
	Name: "history", Args: "POLICY", Least: 1, Most: 1,
	About: "say who changed the exceptions of a policy, when and why",
	Details: `It prints the last 100 changes that are in Redis, the newest first: override,
remove (of an override), block, unblock, and restore: Redis had lost what it
had, with the history before, and a service wrote back the exceptions.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var h historyFlags
		h.live.define(flags)
		flags.BoolVar(&h.asJSON, "json", false, "print a JSON array")
		return h.run
	},
}

// historyFlags are the flags of the command history.
type historyFlags struct {
	live

	asJSON bool
}

// changeRow is a change of a policy's exceptions in JSON.
type changeRow struct {
	At     time.Time    `json:"at"`
	Kind   string       `json:"kind"`
	Key    string       `json:"key,omitempty"`
	Limits []core.Limit `json:"limits,omitempty"`
	Until  time.Time    `json:"until,omitzero"`
	By     string       `json:"by,omitempty"`
	Reason string       `json:"reason,omitempty"`
	Had    bool         `json:"had"` // there was one before
	Lost   int          `json:"restored,omitempty"`
}

func (h *historyFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	d, err := h.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.known(args[0]); err != nil {
		return err
	}
	changes, err := d.Store.History(ctx, args[0])
	if err != nil {
		return d.Explain(err)
	}
	rows := make([]changeRow, len(changes))
	for i, c := range changes {
		rows[i] = changeRow{At: c.At, Kind: c.Kind, Limits: c.Limits, By: c.By, Reason: c.Reason, Had: c.Had, Lost: c.Lost}
		if c.Key != "" {
			rows[i].Key = d.text(c.Key)
		}
		if c.For > 0 {
			rows[i].Until = c.At.Add(c.For)
		}
	}
	if h.asJSON {
		return writeJSON(s.Out, rows)
	}
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for i, c := range changes {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", oncall.Instant(c.At), c.Kind, rows[i].Key, said(c))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(changes) == 0 {
		_, _ = fmt.Fprintf(s.Out, "%s has no history in Redis%s\n", show.Text(args[0]), d.otherPolicies(ctx, args[0]))
	}
	return nil
}

// said is what a change says beside its key.
func said(c redisstore.Change) string {
	switch c.Kind {
	case "restore":
		return "Redis had lost what it had; a service wrote back " + show.Count(int64(c.Lost))
	case "unblock", "remove":
		text := "by " + oncall.About(core.ExceptionNote{By: c.By, Reason: c.Reason})
		if !c.Had {
			text += " (Redis had none)"
		}
		return text
	}
	text := ""
	for i, l := range c.Limits {
		if i > 0 {
			text += ", "
		}
		text += l.String()
	}
	if text != "" {
		text += " "
	}
	note := core.ExceptionNote{By: c.By, Reason: c.Reason}
	if c.For > 0 {
		note.Until = c.At.Add(c.For)
	}
	return text + "by " + oncall.About(note)
}

// otherPolicies ends a sentence about a policy without exceptions: it names those that have some, or had.
func (d *desk) otherPolicies(ctx context.Context, policy string) string {
	ctx, cancel := context.WithTimeout(ctx, longestSearch)
	defer cancel()
	policies, _ := d.Store.ExceptionPolicies(ctx, d.live.rate) // the user may not have the right
	if len(policies) == 0 || slices.Contains(policies, policy) {
		return "."
	}
	return nearest(policy, policies)
}

// findChanges looks at the history of a policy's exceptions.
func (d *desk) findChanges(ctx context.Context, policy string, search *keyparts.Search, found *finding) error {
	changes, err := d.Store.History(ctx, policy)
	for _, c := range changes {
		if c.Key == "" || !search.Finds(c.Key) {
			continue
		}
		found.Changes++
		if of := (redisstore.Bucket{Policy: policy, Key: c.Key}); !slices.Contains(found.changed, of) {
			found.changed = append(found.changed, of)
		}
	}
	return err
}

// writeChanges says how many changes of the customer are in histories, or were.
func (f *findFlags) writeChanges(w io.Writer, n int) {
	says := map[string]string{"find": "has", "forget": "had, and has no more,"}[f.command]
	if f.dryRun {
		says = "would lose"
	}
	if n > 0 {
		_, _ = fmt.Fprintf(w, "  The history of exceptions %s %s of the customer.\n", says, show.Some(int64(n), "change"))
	}
}
