package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// exception is an override or a block that an operator has set.
type exception struct {
	Policy  string   `json:"policy"`
	Key     string   `json:"key"` // as commands take it
	Blocked bool     `json:"blocked,omitempty"`
	Limits  []string `json:"limits,omitempty"`          // of an override
	EndsIn  float64  `json:"ends_in_seconds,omitempty"` // missing: it holds until it is removed
	By      string   `json:"by,omitempty"`              // who has set it
	Reason  string   `json:"reason,omitempty"`

	key string // as stores have it
}

// does says what e does: "blocked", or its limits.
func (e *exception) does() string {
	if e.Blocked {
		return "blocked"
	}
	return show.Text(strings.Join(e.Limits, ", "))
}

// exceptions returns what operators have set for a policy and Redis has, in the
// order of keys. Those that can't be read are left out: bad says which.
func (s *server) exceptions(ctx context.Context, policy string) (list []exception, bad, err error) {
	stored, err := s.store.Exceptions(ctx, policy)
	if errors.As(err, new(*store.StateError)) {
		bad, err = err, nil
	}
	for _, e := range stored {
		x := exception{Policy: policy, Key: show.Key(e.Key), Blocked: e.Blocks(), EndsIn: e.For.Seconds(), By: e.By, Reason: e.Reason, key: e.Key}
		for _, l := range e.Limits {
			x.Limits = append(x.Limits, l.String())
		}
		list = append(list, x)
	}
	return list, s.explain(bad), s.explain(err)
}

// exceptionsOf returns the exceptions of one key, none if they can't be read.
func (s *server) exceptionsOf(ctx context.Context, policy, key string) (list []exception, err error) {
	all, _, err := s.exceptions(ctx, policy)
	for _, e := range all {
		if e.key == key {
			list = append(list, e)
		}
	}
	return list, err
}

// textOfExceptions writes exceptions as a table. policies: each row begins with
// the policy.
func textOfExceptions(w *show.Writer, list []exception, policies bool) {
	var rows [][]string
	for _, e := range list {
		ends := "until it is removed"
		if e.EndsIn > 0 {
			ends = "ends in " + show.Duration(seconds(e.EndsIn))
		}
		if e.By+e.Reason != "" {
			ends += ", by " + about(store.ExceptionNote{By: e.By, Reason: e.Reason})
		}
		row := []string{e.Key, e.does(), ends}
		if policies {
			row = append([]string{show.Text(e.Policy)}, row...)
		}
		rows = append(rows, row)
	}
	w.Table(2, nil, rows)
}

// exceptionFlags are the flags of commands that change exceptions.
type exceptionFlags struct {
	deskFlags

	lasts      time.Duration
	by, reason string
	fresh      bool
}

func (f *exceptionFlags) define(cmd *cobra.Command, sets bool) {
	f.deskFlags.define(cmd)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for those who read it later: a line of `text`")
	cmd.Flags().StringVar(&f.by, "by", "", "who does it: a `name` (default: the system's of who runs this)")
	if !sets {
		return
	}
	cmd.Flags().BoolVar(&f.fresh, "new", false, "the client has not come yet: write it also if Redis has only similar keys")
	cmd.Flags().Func("for", "how `long` it holds, such as 2h, 90min or 7days; without it until it is removed", func(text string) error {
		l, err := core.ParseLimit("1/" + text) // reads what limits have behind the slash
		if err != nil || l.RefillInterval < time.Second || l.Mode != core.Continuous || l.Name != "" || l.Capacity != 1 {
			return errors.New("must be a time of 1 s to 36500 days, such as 2h, 90min or 7days")
		}
		f.lasts = l.RefillInterval
		return nil
	})
}

// author is who makes a change.
func (f *exceptionFlags) author() string {
	if f.by == "" {
		if u, err := user.Current(); err == nil {
			return u.Username
		}
	}
	return f.by
}

// changeResult is what override, block and unblock did.
type changeResult struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Done   bool   `json:"done"` // false: nothing was changed
	Says   string `json:"says"` // what was done, or why not

	Changes    []string    `json:"changes,omitempty"`    // of an override: its limits, and what they were
	Exceptions []exception `json:"exceptions,omitempty"` // of the key, as they are now
	Next       *bucket     `json:"next,omitempty"`       // what the next request sees, with --policies
	similarity
}

func (r *changeResult) Text(w *show.Writer) {
	w.Line("%s %s: %s", show.Text(r.Policy), r.Key, r.Says)
	for _, change := range r.Changes {
		w.Line("  %s", change)
	}
	r.similarity.Text(w)
	if r.Next != nil && r.Done {
		w.Line("  The next request: %s.", r.Next.verdict())
	}
	if r.Done {
		w.Line("  Services that call redisstore's FollowExceptions obey within 2 s; others take no notice.")
	}
}

// set writes an exception, unless Redis has neither a bucket nor an exception of
// its key, and keys or policies that may be meant.
func (d *desk) set(cmd *cobra.Command, f *exceptionFlags, policy string, e redisstore.Exception, does string, changes []string) error {
	ctx := cmd.Context()
	r := &changeResult{Policy: policy, Key: show.Key(e.Key), Changes: changes}
	kept, err := d.store.State(ctx, policy, e.Key)
	if err != nil {
		return d.explain(err)
	}
	if r.Exceptions, err = d.exceptionsOf(ctx, policy, e.Key); err != nil {
		return err
	}
	if kept.Bytes == nil && len(r.Exceptions) == 0 {
		r.similarity = d.similar(ctx, policy, e.Key)
	}
	if r.found() && !f.fresh {
		r.Says, r.Changes = "Redis has no bucket of this key, so nothing was changed. If the client has not come yet, add --new.", nil
		return orFound(printResult(cmd, r))
	}
	e.For, e.By, e.Reason = f.lasts, f.author(), f.reason
	if err := d.change(ctx, func(ctx context.Context) error { return d.store.SetException(ctx, policy, e) }); err != nil {
		return err
	}
	r.Done, r.Says = true, does
	if e.For > 0 {
		r.Says += " for " + show.Duration(e.For)
	} else {
		r.Says += " until it is removed"
	}
	for _, old := range r.Exceptions {
		r.Says += ", and was: " + old.does()
	}
	if kept.Bytes == nil {
		r.Says += ". Redis has no bucket of this key: it was never used, or not since it was full"
	}
	return d.after(cmd, r, e.Key)
}

// after prints what was done, with what the next request of the key sees.
func (d *desk) after(cmd *cobra.Command, r *changeResult, key string) error {
	d.forget(r.Policy)
	var err error
	if r.Exceptions, err = d.exceptionsOf(cmd.Context(), r.Policy, key); err == nil && d.has(r.Policy) {
		r.Next, err = d.look(cmd.Context(), r.Policy, key, "", true)
	}
	if err != nil {
		return fmt.Errorf("%w\n  The change is made, and what the next request sees is not known", d.explain(err))
	}
	return printResult(cmd, r)
}

// change changes one thing in Redis. What is begun is ended, also if ctx ends
// meanwhile, so that the command can say whether it was done.
func (d *desk) change(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.explain(do(context.WithoutCancel(ctx)))
}

// orFound returns errFound after a result that was printed.
func orFound(err error) error {
	if err == nil {
		err = errFound
	}
	return err
}

func newBlockCommand() *cobra.Command {
	var f exceptionFlags
	cmd := &cobra.Command{
		Use:   "block POLICY KEY",
		Short: "Deny all requests of a client, without a deploy",
		Long: `Deny all requests of a client, without a deploy. It is written into Redis beside
the buckets, and comes before all overrides. What the client has left stays.

If Redis has no bucket of the key, and has keys or policies that may be meant,
nothing is written, and the exit code is 1: add --new for a client that has not
come yet.`,
		Example: "  ratelimit block api ip:192.0.2.1 --for 1day --reason scraper",
		Args:    cobra.ExactArgs(2),
	}
	f.define(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := givenKey(args[1])
		if err != nil {
			return err
		}
		d, err := f.open(cmd, args[0])
		if err != nil {
			return err
		}
		defer d.close()
		return d.set(cmd, &f, args[0], redisstore.Exception{Key: key}, "blocked", nil)
	}
	return cmd
}

func newUnblockCommand() *cobra.Command {
	var f exceptionFlags
	cmd := &cobra.Command{
		Use:     "unblock POLICY KEY",
		Short:   "End a block",
		Long:    "End a block. The exit code is 1 if Redis has none.",
		Example: "  ratelimit unblock api ip:192.0.2.1",
		Args:    cobra.ExactArgs(2),
	}
	f.define(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := givenKey(args[1])
		if err != nil {
			return err
		}
		d, err := f.open(cmd, args[0])
		if err != nil {
			return err
		}
		defer d.close()
		return d.remove(cmd, &f, args[0], key, false)
	}
	return cmd
}

// remove ends a block of a key, or its override.
func (d *desk) remove(cmd *cobra.Command, f *exceptionFlags, policy, key string, override bool) error {
	kind := "block"
	if override {
		kind = "override"
	}
	ctx, was, other := cmd.Context(), false, false
	all, _, err := d.exceptions(ctx, policy)
	if err != nil {
		return err
	}
	for _, e := range all {
		other = other || e.key == key && e.Blocked == override
	}
	if !other { // also if Redis has none: processes may remember one that it has lost
		err := d.change(ctx, func(ctx context.Context) (err error) {
			was, err = d.store.RemoveException(ctx, policy, key, f.author(), f.reason)
			return err
		})
		if err != nil {
			return err
		}
	}
	r := &changeResult{Policy: policy, Key: show.Key(key), Done: was, Says: "the " + kind + " has ended"}
	if was {
		return d.after(cmd, r, key)
	}
	r.Says = "Redis has no " + kind + " of this key, so nothing was changed"
	given := keyparts.Of(key)
	for _, e := range all {
		_, near := given.Distance(keyparts.Of(e.key))
		if e.Blocked != override && (near || given.SameClient(keyparts.Of(e.key))) && len(r.Similar) < mostSimilar {
			r.Similar = append(r.Similar, e.Key)
		}
	}
	return orFound(printResult(cmd, r))
}
