package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// resetResult is what reset did.
type resetResult struct {
	Keys []resetKey `json:"keys"`
	Done bool       `json:"done"` // false: nothing was reset
	similarity

	value string // of --all-of, that no key has
}

// resetKey is a key that was reset, or would be.
type resetKey struct {
	Policy     string      `json:"policy"`
	Key        string      `json:"key"`
	Stored     bool        `json:"stored"`               // Redis had the key
	Before     string      `json:"before"`               // what it had, in words
	Exceptions []exception `json:"exceptions,omitempty"` // that hold on

	bucket redisstore.Bucket
}

func (r *resetResult) Text(w *show.Writer) {
	for i := range r.Keys {
		k := &r.Keys[i]
		switch subject := show.Text(k.Policy) + " " + k.Key + ": "; {
		case r.Done:
			w.Line("%sreset, so every limit is full. Before: %s.", subject, k.Before)
		case !k.Stored:
			w.Line("%snothing was stored, so nothing was reset: it was never used, or not since it was full.", subject)
		default:
			w.Line("%s%s.", subject, k.Before)
		}
		textOfExceptions(w, k.Exceptions, false)
	}
	r.similarity.Text(w)
	if r.Done {
		w.Line("  Processes may repeat a denial for up to 1 s (WithDenyCache), and use tokens on lease for up to 100 ms (WithLease).")
	}
	if r.value != "" {
		w.Line("No key has the value %s, so nothing was reset.", show.Text(r.value))
	}
}

func newResetCommand() *cobra.Command {
	var (
		f     deskFlags
		value string
		yes   bool
	)
	cmd := &cobra.Command{
		Use:   "reset [POLICY] [KEY]",
		Short: "Make all limits of a client full again",
		Long: `Make all limits of a client full again, by deleting the key, as Limiter.Reset
does: what was used, reserved and held is forgotten. Overrides and blocks stay.
The exit code is 1 if nothing was stored, with keys that may be meant.

With --all-of, all keys that have a value as a whole are reset, of a policy or
of all. Without --yes it says which, and does nothing.`,
		Example: `  ratelimit reset api x-api-key:ann
  ratelimit reset --all-of ann --yes`,
		Args: cobra.MaximumNArgs(2),
	}
	f.define(cmd)
	cmd.Flags().StringVar(&value, "all-of", "", "all keys with this `value`, as list --match finds them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it: --all-of asks for this")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		policy := ""
		if len(args) > 0 {
			policy = args[0]
		}
		if cmd.Flags().Changed("all-of") {
			if len(args) > 1 || value == "" {
				return misuse("--all-of takes a value, and a policy or none: name no other key")
			}
			d, err := f.open(cmd, policy)
			if err != nil {
				return err
			}
			defer d.close()
			return d.resetAll(cmd, policy, value, yes)
		}
		if len(args) < 2 {
			return misuse("name a policy and a key, or --all-of VALUE")
		}
		key, err := givenKey(args[1])
		if err != nil {
			return err
		}
		d, err := f.open(cmd, policy)
		if err != nil {
			return err
		}
		defer d.close()
		return d.resetOne(cmd, policy, key)
	}
	return cmd
}

// before returns what Redis has of a key.
func (d *desk) before(ctx context.Context, b redisstore.Bucket) (k resetKey, err error) {
	k = resetKey{Policy: b.Policy, Key: show.Key(b.Key), Stored: true, Before: "it could not be read", bucket: b}
	found, err := d.look(ctx, b.Policy, b.Key, "", false)
	if err == nil {
		k.Stored, k.Before = found.Stored, found.verdict()
	} else if !errors.As(err, new(*store.StateError)) {
		return k, d.explain(err)
	}
	k.Exceptions, err = d.exceptionsOf(ctx, b.Policy, b.Key)
	return k, err
}

func (d *desk) resetOne(cmd *cobra.Command, policy, key string) error {
	ctx := cmd.Context()
	k, err := d.before(ctx, redisstore.Bucket{Policy: policy, Key: key})
	if err != nil {
		return err
	}
	r := &resetResult{Keys: []resetKey{k}}
	if !k.Stored {
		r.similarity = d.similar(ctx, policy, key)
		return orFound(printResult(cmd, r))
	}
	if err := d.change(ctx, func(ctx context.Context) error { return d.store.Reset(ctx, policy, key) }); err != nil {
		return err
	}
	r.Done = true
	return printResult(cmd, r)
}

// resetAll resets all keys that have a value.
func (d *desk) resetAll(cmd *cobra.Command, policy, value string, yes bool) error {
	ctx := cmd.Context()
	r := &resetResult{Keys: []resetKey{}}
	var l listing
	for b, err := range matching(d.keys(ctx, policy, &l), value) {
		if err != nil {
			return err
		}
		k, err := d.before(ctx, b)
		if err != nil {
			return err
		}
		r.Keys = append(r.Keys, k)
	}
	slices.SortFunc(r.Keys, func(a, b resetKey) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(a.bucket.Key, b.bucket.Key))
	})
	found := show.Some(int64(len(r.Keys)), "key")
	switch {
	case len(r.Keys) == 0:
		r.value = value
		return cmp.Or(orFound(printResult(cmd, r)), missing(l.failed))
	case !yes:
		return cmp.Or(printResult(cmd, r), missing(l.failed), misuse("nothing was reset: --yes resets %s", found))
	}
	done := 0
	err := pace.Each(ctx, d.flags.rate, withoutErrors(r.Keys), func(k resetKey) (struct{}, error) {
		return struct{}{}, d.store.Reset(context.WithoutCancel(ctx), k.bucket.Policy, k.bucket.Key) // what is begun is ended
	}, func(_ resetKey, _ struct{}, err error) error {
		if err == nil {
			done++
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\n  %s of %s were reset", d.explain(err), show.Count(int64(done)), found)
	}
	r.Done = true
	return cmp.Or(printResult(cmd, r), missing(l.failed))
}

// withoutErrors is a list as a sequence that has no errors.
func withoutErrors[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}
