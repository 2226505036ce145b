package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

var copyCommand = cli.Command{
	Name: "copy", Args: "FROM TO", Least: 2, Most: 2,
	About: "copy limits to another server, prefix or policy name",
	Details: `FROM and TO are URLs, such as redis://old:6379 and rediss://new:6379. A flag of the connection holds for both, and with from- or to-
in front for one: -to-cacert, -from-c, -to-n. So do REDISCLI_FROM_AUTH and REDISCLI_TO_AUTH in place of ` + conn.PasswordVariable + `, and
REDISCLI_FROM_SENTINEL_AUTH and REDISCLI_TO_SENTINEL_AUTH.

Each key is copied with its TTL. Keys that TO has already stay, unless -replace is given: so copy once before the move, and with -replace
right after it. What requests take between the two is granted again. Overrides and blocks in Redis are copied too, with their history,
except those that were removed at TO in the last day, unless -replace is given.

  ratelimit copy redis://old:6379 rediss://new:6379 -to-cacert ca.pem
  ratelimit copy -policies policies.yaml -rename api=public redis://old:6379 redis://new:6379

-rename keeps the tokens of limits that were given no name, which are named for their policy. It needs the policy, under either name, in
-policies FILE. The user needs +scan at FROM, and +multi and +exec at TO, besides the rights of a limiter.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		c := copyFlags{renames: make(map[string]string), from: conn.Side{Name: "from"}, to: conn.Side{Name: "to"}}
		c.live.define(flags)
		c.from.Define(flags)
		c.to.Define(flags)
		flags.StringVar(&c.only, "policy", "", "the `name` of the policy to copy; by default all")
		flags.BoolVar(&c.replace, "replace", false, "replace keys that TO has already")
		flags.BoolVar(&c.dryRun, "dry-run", false, "count the keys, and copy nothing")
		flags.Func("rename", "copy the policy OLD under the name NEW, as `OLD=NEW`, and no other; can be repeated", func(v string) error {
			old, name, ok := strings.Cut(v, "=")
			if !ok || old == "" || name == "" {
				return errors.New("write OLD=NEW")
			}
			c.renames[old] = name
			return nil
		})
		return c.run
	},
}

// copyFlags are the flags of the command copy.
type copyFlags struct {
	live

	from, to        conn.Side
	only            string
	replace, dryRun bool
	renames         map[string]string // of policies
}

func (c *copyFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	sides, err := conn.Sides(&c.Flags, &c.from, &c.to, args[0], args[1])
	if err != nil {
		return err
	}
	if sides[0].Target() == sides[1].Target() && len(c.renames) == 0 {
		return cli.Misuse("FROM and TO are the same: copy needs another server, -to-prefix or -rename")
	}
	if len(c.renames) > 0 && (c.only != "" || c.file == "") {
		return cli.Misuse("-rename needs -policies FILE, to know which limits have no name, and excludes -policy")
	}
	c.Flags = *sides[0]
	d, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	to, err := sides[1].Open(ctx, s.Env)
	if err != nil {
		return err
	}
	defer to.Close()
	limits := make(map[string]map[string]string)
	for old, name := range c.renames {
		if limits[old], err = d.renamedLimits(old, name); err != nil {
			return err
		}
	}
	if err := c.checkNames(ctx, d, slices.Collect(maps.Keys(c.renames))...); err != nil {
		return d.Explain(err)
	}
	n, err := c.copyAll(ctx, d, to.Store, limits)
	if err == nil && c.only != "" && n.none() {
		if err := c.checkNames(ctx, d, c.only); err != nil {
			return d.Explain(err)
		}
	}
	says := c.says(n, to.Where)
	if err != nil {
		explained := d.Explain(err)
		if cannot := to.Store.Ping(ctx); ctx.Err() == nil && !cli.IsMisuse(err) && cannot != nil { // the reply to a transaction does not say why
			explained = to.Explain(cannot)
		}
		return cli.After(explained, "%s", says)
	}
	_, _ = fmt.Fprintln(s.Out, says)
	if n.none() {
		_, _ = fmt.Fprint(s.Out, c.noKeys("-from-prefix, "))
	}
	const again = "and keys are not copied: copy again."
	return errors.Join(d.incomplete(again), n.missed.error(to, again))
}

// says is what was copied.
func (c *copyFlags) says(n copies, where string) string {
	verb := "copied"
	if c.dryRun {
		verb = "would be copied (-dry-run)"
	}
	text := show.Some(n.copied, "key") + " " + verb + " to " + where
	if n.exceptions > 0 {
		text += "\n  and " + show.Some(n.exceptions, "exception")
	}
	if n.kept > 0 {
		text += "\n  " + show.Count(n.kept) + " not: TO has them (see -replace), or they have expired."
	}
	if n.failed > 0 {
		text += "\n  " + show.Count(n.failed) + " not: their master failed."
	}
	return text
}

// checkNames returns a mistake if a policy has neither keys nor exceptions at
// FROM, and is not in the file. It looks at keys until it has seen all names.
func (c *copyFlags) checkNames(ctx context.Context, d *desk, names ...string) error {
	missing, seen := make(map[string]bool), make(map[string]bool)
	for _, name := range names {
		if _, known := d.policies[name]; !known {
			missing[name] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	for b, err := range d.bucketsAndPolicies(ctx) {
		if err != nil {
			return err
		}
		seen[b.Policy] = true
		if delete(missing, b.Policy); len(missing) == 0 {
			return nil
		}
	}
	if len(d.missed) > 0 {
		return nil // it may be where nobody answers
	}
	name := slices.Min(slices.Collect(maps.Keys(missing)))
	return cli.Misuse("policy %s has no keys at %s%s", show.Text(name), d.Where, nearest(name, slices.Sorted(maps.Keys(seen))))
}

// copies counts keys. missed are the masters that failed one.
type copies struct {
	copied, kept, failed, exceptions int64
	missed                           missed
}

// none reports whether there was nothing to copy.
func (n *copies) none() bool { return n.copied+n.kept+n.failed+n.exceptions == 0 }

// copyAll copies buckets, and then exceptions.
func (c *copyFlags) copyAll(ctx context.Context, d *desk, to *redisstore.Store, limits map[string]map[string]string) (n copies, err error) {
	n.missed = make(missed)
	list, policies := d.bucketsAndPolicies(ctx), []string(nil) // with exceptions
	if c.only != "" {
		list, policies = d.buckets(ctx, c.only), []string{c.only}
	}
	chosen := func(yield func(redisstore.Bucket, error) bool) {
		for b, err := range list {
			if _, renamed := c.renames[b.Policy]; err == nil && len(c.renames) > 0 && !renamed {
				continue
			}
			if err == nil && b.Key == "" {
				policies = append(policies, b.Policy)
			} else if !yield(b, err) {
				return
			}
		}
	}
	err = pace.Each(ctx, c.rate, chosen, func(b redisstore.Bucket) (copied bool, err error) {
		as := b
		if name, renamed := c.renames[b.Policy]; renamed {
			as.Policy = name
		}
		if c.dryRun {
			return true, nil
		}
		return d.Store.CopyTo(context.WithoutCancel(ctx), b, to, as, limits[b.Policy], c.replace) // what is begun is ended
	}, func(_ redisstore.Bucket, copied bool, err error) error {
		switch {
		case err != nil && n.missed.note(err):
			n.failed++
		case err != nil:
			return err
		case copied:
			n.copied++
		default:
			n.kept++
		}
		return nil
	})
	if err == nil {
		slices.Sort(policies)
		err = c.copyExceptions(ctx, d, slices.Compact(policies), to, limits, &n)
	}
	return n, err
}

// renamedLimits returns the new names of limits, by the old ones, if a policy
// gets another name.
func (d *desk) renamedLimits(old, name string) (map[string]string, error) {
	policy, ok := d.policies[old]
	if !ok {
		if policy, ok = d.policies[name]; !ok {
			return nil, cli.Misuse("-rename %s=%s: neither policy is in %s (it has %s)", old, name, d.live.file, strings.Join(slices.Sorted(maps.Keys(d.policies)), ", "))
		}
	}
	names := make(map[string]string)
	for _, limits := range append(slices.Collect(maps.Values(policy.Overrides)), policy.Limits) {
		if limits = slices.DeleteFunc(slices.Clone(limits), func(l core.Limit) bool { return l.Times != 0 }); len(limits) == 0 {
			continue // it only multiplies those of the policy
		}
		before, err := namesOf(old, limits)
		if err != nil {
			return nil, err
		}
		after, err := namesOf(name, limits)
		if err != nil {
			return nil, err
		}
		for i := range before {
			if before[i] != after[i] {
				names[before[i]] = after[i]
			}
		}
	}
	return names, nil
}

// namesOf returns the names of a policy's limits, also those that the library
// chooses.
func namesOf(policy string, limits []core.Limit) (names []string, err error) {
	l, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: policy, Limits: limits})
	if err != nil {
		return nil, cli.Misuse("%v", err)
	}
	res, err := l.Peek(context.Background(), "nobody")
	for _, limit := range res.Limits() {
		names = append(names, limit.Limit.Name)
	}
	return names, err
}
