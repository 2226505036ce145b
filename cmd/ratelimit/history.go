package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
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
		flags.BoolVar(&h.asJSON, "json", false, "print a JSON object")
		return h.run
	},
}

// historyFlags are the flags of the command history.
type historyFlags struct {
	live

	asJSON bool
}

// changeList is what history found.
type changeList struct {
	output.Head

	Changes []changeRow `json:"changes"` // the newest first
}

// changeRow is a change of a policy's exceptions.
type changeRow struct {
	At     time.Time    `json:"at"`                   // when it was made
	Kind   string       `json:"kind"`                 // override, remove, block, unblock or restore
	Key    string       `json:"key,omitempty"`        // whose exception it is, as other commands take it; missing: of restore
	Bytes  []byte       `json:"key_base64,omitempty"` // the key itself, if key is quoted
	Limits []core.Limit `json:"limits,omitempty"`     // of an override: the limits that it replaces or multiplies
	Until  time.Time    `json:"until,omitzero"`       // when the exception ends; missing: when it is removed
	By     string       `json:"by,omitempty"`         // who made the change
	Reason string       `json:"reason,omitempty"`     // why
	Had    bool         `json:"had"`                  // the key had such an exception before
	Lost   int          `json:"restored,omitempty"`   // of restore: how many exceptions a service wrote back
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
			rows[i].Key, rows[i].Bytes = d.text(c.Key), d.keys.Bytes(c.Key)
		}
		if c.For > 0 {
			rows[i].Until = c.At.Add(c.For)
		}
	}
	if h.asJSON {
		return output.Write(s.Out, &changeList{Changes: rows})
	}
	var t show.Table
	for i, c := range changes {
		t.Row(oncall.Instant(c.At), c.Kind, rows[i].Key, said(c))
	}
	if err := t.Write(s.Out); err != nil {
		return err
	}
	if len(changes) == 0 {
		_ = show.Paragraph(s.Out, 2, show.Text(args[0])+" has no history in Redis"+d.otherPolicies(ctx, args[0]))
	}
	return nil
}

// said is what a change says beside its key.
func said(c redisstore.Change) string {
	switch c.Kind {
	case "restore":
		return "Redis had lost what it had; a service wrote back " + show.Count(int64(c.Lost))
	case "unblock", "remove":
		text := "by " + oncall.About(store.ExceptionNote{By: c.By, Reason: c.Reason})
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
	note := store.ExceptionNote{By: c.By, Reason: c.Reason}
	if c.For > 0 {
		note.Until = c.At.Add(c.For)
	}
	return text + "by " + oncall.About(note)
}

// otherPolicies ends a sentence about a policy without exceptions: it names
// those that have some, or had.
func (d *desk) otherPolicies(ctx context.Context, policy string) string {
	ctx, cancel := context.WithTimeout(ctx, longestSearch)
	defer cancel()
	policies, _ := d.listedPolicies(ctx) // the user may not have the right
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
