package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/policydiff"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var diffCommand = cli.Command{
	Name: "diff", Args: "OLD NEW", Least: 2, Most: 2,
	About: "say which buckets a change of policy files cuts, raises or renames",
	Details: `OLD and NEW are policy files. A bucket is identified by its policy's name and its limit's name, also where the library chose that name. So each
line tells what clients find after the change:

  cut     they have less: tokens that they had are gone, or come back slower
  raise   they have more
  rename  the bucket of the old name is not read any more, and all start with a full one
  new     a limit that all start full with
  remove  a limit that holds no more
  other   how the policy decides has changed

The exit code is 1 if there are differences, and 3 if a file can't be read or has mistakes.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		asJSON := flags.Bool("json", false, "print a JSON object")
		mode := flags.String("keys", "hide", "the `mode` of keys of overrides, which can be personal data: show, hash (by the secret in "+show.SecretVariable+") or hide")
		return func(_ context.Context, s cli.Streams, args []string) error {
			keys, err := show.ParseKeys(*mode, s.Env(show.SecretVariable))
			if err != nil {
				return cli.Misuse("%v", err)
			}
			before, err := loadPolicies(s.In, args[0])
			if err != nil {
				return err
			}
			after, err := loadPolicies(s.In, args[1])
			if err != nil {
				return err
			}
			changes, err := policydiff.Compare(before, after, keys.Text)
			if err != nil {
				return err
			}
			for i := range changes {
				if key, err := oncall.GivenKey(changes[i].Key); err == nil && key != changes[i].Key {
					changes[i].Bytes = []byte(key)
				}
			}
			return printChanges(s, changes, *asJSON)
		}
	},
}

// differences are what diff found.
type differences struct {
	output.Head

	Changes []policydiff.Change `json:"changes"` // what is different, in the order of the policies' names
}

func printChanges(s cli.Streams, changes []policydiff.Change, asJSON bool) error {
	if asJSON {
		if err := output.Write(s.Out, &differences{Changes: append([]policydiff.Change{}, changes...)}); err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		if !asJSON {
			_, _ = fmt.Fprintln(s.Out, "The policies are the same.")
		}
		return nil
	}
	if asJSON {
		return cli.ErrFound
	}
	var t show.Table
	for _, c := range changes {
		t.Row(fmt.Sprintf("%-6s", c.Effect), c.String())
	}
	return cmp.Or(t.Write(s.Out), cli.ErrFound)
}
