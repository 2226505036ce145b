package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// lingering is how long processes may decide by what was before.
const lingering = `Processes may repeat a denial for up to 1 s (redisstore.WithDenyCache),
  and use tokens on lease for up to 2 s (redisstore.WithLease).`

var resetCommand = cli.Command{
	Name: "reset", Args: "POLICY [KEY]", Least: 1, Most: 2,
	About: "make all limits of a client full again",
	Details: `The key is deleted, as Limiter.Reset does: what was used, reserved and held is forgotten. KEY is that of the command get.

  ratelimit reset -policies policies.yaml api -header x-api-key=abc

It says what the next request sees. The exit code is 1 if that is still denied,
because somebody blocks the client.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var c changeFlags
		c.live.define(flags)
		c.keys.define(flags)
		return c.reset
	},
}

var creditCommand = cli.Command{
	Name: "credit", Args: "POLICY [KEY] LIMIT N", Least: 3, Most: 4,
	About: "give tokens back to a limit of a client, or of all clients",
	Details: `It undoes a wrong quota or charge, as Limiter.RefundUnits does: no limit gets more than its capacity. With -all in place of KEY, each key
that the policy has gets N tokens. A key that comes meanwhile gets none: it starts full.

  ratelimit credit -policies policies.yaml api -header x-api-key=abc daily 500
  ratelimit credit -policies policies.yaml api -all daily 500 -yes

It says what the next request sees. The exit code is 1 if that is still denied,
by a block or by limits.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		c := changeFlags{sign: 1}
		c.live.define(flags)
		c.keys.define(flags)
		flags.BoolVar(&c.all, "all", false, "all keys of the policy")
		flags.BoolVar(&c.yes, "yes", false, "do it: -all asks for this")
		return c.move
	},
}

var debitCommand = cli.Command{
	Name: "debit", Args: "POLICY [KEY] LIMIT N", Least: 3, Most: 4,
	About: "take tokens from a limit of a client, whether or not it has them",
	Details: `It charges what has happened already, as Limiter.DebitUnits does. If the tokens are not there, the limit is in debt, and denies requests
until it has refilled.

  ratelimit debit -policies policies.yaml api -header x-api-key=abc daily 500

It says what the next request sees. The exit code is 1 if somebody blocks the
client.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		c := changeFlags{sign: -1}
		c.live.define(flags)
		c.keys.define(flags)
		return c.move
	},
}

// changeFlags are the flags of commands that change buckets.
type changeFlags struct {
	live

	keys     keys
	sign     int64 // 1: tokens come back; -1: they are taken
	all, yes bool
}

func (c *changeFlags) reset(ctx context.Context, s cli.Streams, args []string) error {
	d, limiter, err := c.openPolicy(ctx, s, "reset", args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	key, err := d.givenKey(ctx, args[0], arg(args, 1), &c.keys)
	if err != nil {
		return err
	}
	before := "it could not be read"
	switch b, err := state.Of(ctx, d.rulesOf(ctx, limiter), key, nil); {
	case err == nil:
		before = b.Says
	case !errors.As(err, new(*store.StateError)):
		return d.Explain(err)
	}
	if err := d.change(ctx, func(ctx context.Context) error { return limiter.Reset(ctx, key) }); err != nil {
		return err
	}
	_ = show.Line(s.Out, args[0]+" "+d.text(key), "is reset: every limit is full. Before: "+before+".")
	_, err = d.sees(ctx, s, limiter, key, reportAny)
	_, _ = fmt.Fprintln(s.Out, "  "+lingering)
	return err
}

// move credits or debits.
func (c *changeFlags) move(ctx context.Context, s cli.Streams, args []string) error {
	does := map[int64]string{1: "credit", -1: "debit"}[c.sign]
	name, number := args[len(args)-2], args[len(args)-1]
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 {
		return cli.Misuse("%s: N is %s, and must be a whole number above 0", does, show.Text(number))
	}
	keyArg := ""
	if len(args) == 4 {
		keyArg = args[1]
	}
	if c.all && (keyArg != "" || len(c.keys.makers) > 0) {
		return cli.Misuse("-all is all keys: name none")
	}
	d, limiter, err := c.openPolicy(ctx, s, does, args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	t := teller{desk: d, limiter: limiter, rules: d.rulesOf(ctx, limiter), name: name, n: c.sign * n, single: make(map[core.Limit]*core.Limiter)}
	if c.all {
		return t.all(ctx, s, c.yes)
	}
	key, err := d.givenKey(ctx, args[0], keyArg, &c.keys)
	if err != nil {
		return err
	}
	var before, after core.LimitResult
	err = d.change(ctx, func(ctx context.Context) (err error) {
		before, after, err = t.move(ctx, key)
		return err
	})
	if err != nil {
		return err
	}
	_ = show.About(s.Out, args[0]+" "+d.text(key), fmt.Sprintf("%sed %s: %s has %s of %s tokens left, and had %s.", does, show.Some(n, "token"), name,
		show.Count(after.Remaining-after.Debt), show.Count(after.Limit.Capacity), show.Count(before.Remaining-before.Debt)))
	if c.sign > 0 && after.Remaining == after.Limit.Capacity {
		_, _ = fmt.Fprintln(s.Out, "  It is full: what had no room is lost.")
	}
	report := reportAny
	if c.sign < 0 {
		report = reportBlocks
	}
	_, err = d.sees(ctx, s, limiter, key, report)
	_, _ = fmt.Fprintln(s.Out, "  "+lingering)
	return err
}
