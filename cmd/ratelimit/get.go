package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// getResult is what get prints.
type getResult struct {
	bucket

	Exceptions []exception `json:"exceptions,omitempty"` // overrides and blocks of the key that are in Redis
	similarity
}

func (r *getResult) Text(w *show.Writer) {
	r.bucket.Text(w)
	textOfExceptions(w, r.Exceptions, false)
	r.similarity.Text(w)
	if !r.byFile && r.Stored {
		w.Line("  %s", lacksFile)
	}
}

// lacksFile is what a policy file would add.
const lacksFile = "--policies FILE adds what is left now, when the next token comes, and the names of limits."

func newGetCommand() *cobra.Command {
	var (
		f    deskFlags
		plan string
	)
	cmd := &cobra.Command{
		Use:   "get POLICY KEY",
		Short: "Say whether a client is limited right now, and why",
		Long: `Say whether a client is limited right now, and why. It takes nothing. KEY is
what the service's key function returns, such as ip:192.0.2.1, x-api-key:ann or,
of Join, 'route:/items/{id}|x-api-key:ann'. Without --policies it says what is
stored.

Of a key that Redis does not have it names keys that may be meant. The exit code
is 1 then, and if the next request is denied.`,
		Example: `  ratelimit get api ip:192.0.2.1 --policies policies.yaml
  ratelimit get api 'route:/items/{id}|x-api-key:ann' -u redis://redis:6379`,
		Args: cobra.ExactArgs(2),
	}
	f.define(cmd)
	cmd.Flags().StringVar(&plan, "plan", "", "decide by the limits of this `plan` of the policy (default: those that the key was last decided by)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, policy := cmd.Context(), args[0]
		key, err := givenKey(args[1])
		if err != nil {
			return err
		}
		if f.file == "" && plan != "" {
			return misuse("--plan needs --policies FILE")
		}
		d, err := f.open(cmd, policy)
		if err != nil {
			return err
		}
		defer d.close()
		b, err := d.look(ctx, policy, key, plan, false)
		if err != nil {
			return d.explain(err)
		}
		r := &getResult{bucket: *b}
		if r.Exceptions, err = d.exceptionsOf(ctx, policy, key); err != nil {
			return err
		}
		if blocks := slices.IndexFunc(r.Exceptions, func(e exception) bool { return e.Blocked }); blocks >= 0 && !r.byFile {
			r.Allowed, r.Blocked, r.Says = new(bool), true, saysBlocked(operator)
		}
		if !r.Stored {
			r.similarity = d.similar(ctx, policy, key)
		}
		if err = printResult(cmd, r); err == nil && (!r.passes() || r.found()) {
			err = errFound
		}
		return err
	}
	return cmd
}
