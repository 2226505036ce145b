package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// lingering is how long processes may decide by what was before.
const lingering = `Processes may repeat a denial for up to 1 s (redisstore.WithDenyCache), and use tokens on lease for up to 2 s (redisstore.WithLease).`

var resetCommand = cli.Command{
	Name: "reset", Args: "POLICY [KEY]", Least: 1, Most: 2,
	About: "make all limits of a client full again",
	Details: `The key is deleted, as Limiter.Reset does: what was used, reserved and held is forgotten. KEY is that of the command get.

  ratelimit reset -policies policies.yaml api -header x-api-key=abc
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
	rules := oncall.RulesOf(limiter)
	switch b, err := state.Of(ctx, rules, key, nil); {
	case err == nil:
		before = b.Says
	case !errors.As(err, new(*store.StateError)):
		return d.Explain(err)
	}
	if err := limiter.Reset(ctx, key); err != nil {
		return d.Explain(err)
	}
	_, _ = fmt.Fprintf(s.Out, "%s %s is reset: every limit is full. Before: %s.\n  %s\n", args[0], d.text(key), before, lingering)
	return nil
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
	t := teller{desk: d, limiter: limiter, rules: oncall.RulesOf(limiter), name: name, n: c.sign * n, single: make(map[core.Limit]*core.Limiter)}
	if c.all {
		return t.all(ctx, s, c.yes)
	}
	key, err := d.givenKey(ctx, args[0], keyArg, &c.keys)
	if err != nil {
		return err
	}
	before, after, err := t.move(ctx, key)
	if err != nil {
		return d.Explain(err)
	}
	_, _ = fmt.Fprintf(s.Out, "%s %s: %sed %s: %s has %s of %s left, and had %s.\n", args[0], d.text(key), does, show.Some(n, "token"), name,
		show.Count(after.Remaining-after.Debt), show.Count(after.Limit.Capacity), show.Count(before.Remaining-before.Debt))
	if c.sign > 0 && after.Remaining == after.Limit.Capacity {
		_, _ = fmt.Fprintln(s.Out, "  It is full: what had no room is lost.")
	}
	_, _ = fmt.Fprintln(s.Out, "  "+lingering)
	return nil
}

// teller gives tokens of one limit to keys, or takes them.
type teller struct {
	*desk

	limiter *core.Limiter
	rules   *oncall.Rules
	name    string // of the limit
	n       int64  // how many come back; below 0: are taken

	mu     sync.Mutex // guards single
	single map[core.Limit]*core.Limiter
}

// limit returns the limit of a key, as it is now.
func (t *teller) limit(ctx context.Context, key string) (core.LimitResult, error) {
	last, _, err := t.rules.Last(ctx, key)
	if err != nil {
		return core.LimitResult{}, err
	}
	res, err := last.Limiter.Peek(ctx, key)
	if err != nil {
		return core.LimitResult{}, err
	}
	var names []string
	for _, l := range res.Limits() {
		switch {
		case l.Limit.Name != t.name:
		case l.Limit.Mode == core.Concurrent:
			return l, cli.Misuse("%s counts requests at work: its slots come back when these end, after %s at the latest", t.name, maxHold(l.Limit))
		default:
			return l, nil
		}
		names = append(names, l.Limit.Name)
	}
	return core.LimitResult{}, cli.Misuse("%s has no limit %s%s", t.limiter.Name(), show.Text(t.name), nearest(t.name, names))
}

// check returns a mistake in the limit's name, if neither the policy nor an override has such a limit that can get tokens.
func (t *teller) check(ctx context.Context, list []string) error {
	_, err := t.limit(ctx, "nobody") // the policy's own limits
	for i := 0; err != nil && cli.IsMisuse(err) && i < len(list); i++ {
		if _, other := t.limit(ctx, list[i]); other == nil {
			return nil
		}
	}
	return err
}

// move gives the tokens to a key. It returns the limit before and after it.
func (t *teller) move(ctx context.Context, key string) (before, after core.LimitResult, err error) {
	if before, err = t.give(ctx, key); err == nil {
		after, err = t.limit(ctx, key)
	}
	return before, after, err
}

// give is move without a look at the limit after it.
func (t *teller) give(ctx context.Context, key string) (before core.LimitResult, err error) {
	if before, err = t.limit(ctx, key); err != nil {
		return before, err
	}
	one, err := t.alone(before.Limit)
	if err != nil {
		return before, err
	}
	unit := oncall.Unit(before.Limit)
	if t.n > 0 {
		return before, one.RefundUnits(ctx, key, core.Units{unit: t.n})
	}
	return before, one.DebitUnits(ctx, key, core.Units{unit: -t.n})
}

// alone returns a limiter of one limit, so that the others of its unit keep their tokens. A limit's name says which bucket it is.
func (t *teller) alone(l core.Limit) (*core.Limiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.single[l]; one != nil {
		return one, nil
	}
	one, err := core.NewLimiter(t.Store, core.Policy{Name: t.limiter.Name(), Limits: []core.Limit{l}, OnFailure: core.FailClosed})
	if err != nil {
		return nil, err
	}
	t.single[l] = one.WithStoredKeys()
	return t.single[l], nil
}

// maxHold is how long a slot is held at most.
func maxHold(l core.Limit) string {
	if l.MaxHold == 0 {
		return "1 min"
	}
	return show.Duration(l.MaxHold)
}

// giveAll gives the tokens to a group of keys, also if ctx ends meanwhile: so it is known which have them.
func (t *teller) giveAll(ctx context.Context, group []string) []error {
	ctx = context.WithoutCancel(ctx)
	errs := make([]error, len(group))
	var all sync.WaitGroup
	for i, key := range group {
		all.Go(func() { _, errs[i] = t.give(ctx, key) })
	}
	all.Wait()
	return errs
}

// all gives the tokens to every key of the policy, if yes is set.
func (t *teller) all(ctx context.Context, s cli.Streams, yes bool) error {
	var list []string
	for b, err := range t.buckets(ctx, t.limiter.Name()) {
		if err != nil {
			return cli.After(t.Explain(err), "No key was credited.")
		}
		list = append(list, b.Key)
	}
	slices.Sort(list)
	list = slices.Compact(list) // SCAN may return a key twice
	if err := t.check(ctx, list); err != nil {
		return err
	}
	if !yes {
		return cli.Misuse("credit -all gives %s to limit %s of %s: add -yes to do it", show.Some(t.n, "token"), t.name, show.Some(int64(len(list)), "key"))
	}
	done, lacking, unreadable := int64(0), int64(0), int64(0)
	p := pace.New(t.live.rate, fewTogether, together)
	defer t.progress.clear()
	for rest := list; len(rest) > 0; {
		group := rest[:min(p.Next(), len(rest))]
		rest = rest[len(group):]
		began := time.Now()
		errs := t.giveAll(ctx, group)
		took := time.Since(began)
		var failed error
		for _, err := range errs {
			switch {
			case err == nil:
				done++
			case errors.As(err, new(*store.StateError)):
				unreadable++
			case cli.IsMisuse(err): // an override without this limit
				lacking++
			default:
				failed = err
			}
		}
		upTo := fmt.Sprintf("%s of %s were credited: those up to %s, in the order of their names", show.Count(done), show.Some(int64(len(list)), "key"), t.text(group[len(group)-1]))
		if failed != nil {
			return cli.After(t.Explain(failed), "%s, perhaps without some of the last %d.", upTo, len(group))
		}
		t.progress.show("credited", done, int64(len(list)))
		if err := p.Wait(ctx, len(group), took); err != nil && len(rest) > 0 {
			return cli.After(err, "%s.", upTo)
		}
	}
	t.progress.clear()
	_, _ = fmt.Fprintf(s.Out, "%s: credited %s to limit %s of %s.\n", t.limiter.Name(), show.Some(t.n, "token"), t.name, show.Some(done, "key"))
	if lacking+unreadable > 0 {
		_, _ = fmt.Fprintf(s.Out, "  Left as they are: %s with an override that lacks this limit, and %s that could not be read.\n", show.Some(lacking, "key"), show.Count(unreadable))
	}
	_, _ = fmt.Fprintln(s.Out, "  "+lingering)
	return nil
}
