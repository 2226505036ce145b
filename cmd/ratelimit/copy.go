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
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

var copyCommand = cli.Command{
	Name: "copy", Args: "FROM TO", Least: 2, Most: 2,
	About: "copy limits to another server, prefix or policy name",
	Details: `FROM and TO are URLs, such as redis://old:6379 and rediss://new:6379; the other flags of the connection hold for both. Each key is
copied with its TTL. Keys that TO has already stay, unless -replace is given: so copy once before the move, and with -replace right after it.
What requests take between the two is granted again. Overrides and blocks in Redis are copied too,
except those that were removed at TO in the last day, unless -replace is given.

  ratelimit copy redis://old:6379 redis://new:6379
  ratelimit copy -policies policies.yaml -rename api=public redis://old:6379 redis://new:6379

-rename keeps the tokens of limits that were given no name, which are named for their policy. It needs the policy, under either name, in
-policies FILE. The user needs +scan at FROM, and +multi and +exec at TO, besides the rights of a limiter.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		c := copyFlags{renames: make(map[string]string)}
		c.live.define(flags)
		flags.StringVar(&c.only, "policy", "", "the `name` of the policy to copy; by default all")
		flags.StringVar(&c.toPrefix, "to-prefix", "", "how keys begin at TO, if not as -prefix says")
		flags.BoolVar(&c.toCluster, "to-cluster", false, "TO is a node of a Cluster; -c says this of FROM")
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

	only, toPrefix             string
	toCluster, replace, dryRun bool
	renames                    map[string]string // of policies
}

func (c *copyFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	if c.toPrefix == "" {
		c.toPrefix = c.Prefix
	}
	if args[0] == args[1] && c.toPrefix == c.Prefix && len(c.renames) == 0 {
		return cli.Misuse("FROM and TO are the same: copy needs another server, -to-prefix or -rename")
	}
	if len(c.renames) > 0 && (c.only != "" || c.file == "") {
		return cli.Misuse("-rename needs -policies FILE, to know which limits have no name, and excludes -policy")
	}
	there := c.Flags
	there.To(args[1], c.toPrefix, c.toCluster)
	c.URL(args[0])
	d, err := c.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	to, err := there.Open(ctx, s.Env)
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
	n, err := c.copyAll(ctx, d, to.Store, limits)
	if err == nil {
		err = c.copyExceptions(ctx, d, to.Store, limits, &n)
	}
	verb := "copied"
	if c.dryRun {
		verb = "would be copied (-dry-run)"
	}
	says := show.Some(n.copied, "key") + " " + verb + " to " + to.Where
	if n.exceptions > 0 {
		says += "\n  and " + show.Some(n.exceptions, "exception")
	}
	if err != nil {
		explained := d.Explain(err)
		if cannot := to.Store.Ping(ctx); ctx.Err() == nil && !cli.IsMisuse(err) && cannot != nil { // the reply to a transaction does not say why
			explained = to.Explain(cannot)
		}
		return cli.After(explained, "%s", says)
	}
	_, _ = fmt.Fprintln(s.Out, says)
	if n == (copies{}) {
		_, _ = fmt.Fprint(s.Out, c.noKeys("-policy, -rename, "))
	}
	if n.kept > 0 {
		_, _ = fmt.Fprintf(s.Out, "  %s not: TO has them (see -replace), or they have expired.\n", show.Count(n.kept))
	}
	return nil
}

// copies counts keys.
type copies struct{ copied, kept, exceptions int64 }

// copyExceptions copies the overrides and blocks that are in Redis.
func (c *copyFlags) copyExceptions(ctx context.Context, d *desk, to *redisstore.Store, limits map[string]map[string]string, n *copies) error {
	policies, err := d.Store.ExceptionPolicies(ctx, c.rate, d.progress.looked)
	d.progress.clear()
	if err != nil {
		return err
	}
	for _, policy := range policies {
		name, renamed := c.renames[policy]
		if c.only != "" && policy != c.only || len(c.renames) > 0 && !renamed {
			continue
		}
		if !renamed {
			name = policy
		}
		list, err := d.Store.Exceptions(ctx, policy)
		if err != nil {
			return err
		}
		type kind struct {
			key    string
			blocks bool
		}
		has := make(map[kind]bool)
		there, err := to.Exceptions(ctx, name)
		if err != nil {
			return err
		}
		for _, e := range there {
			has[kind{e.Key, e.Blocks()}] = true
		}
		blocks, overrides, err := to.EndedExceptions(ctx, name) // what was removed there is newer than a dump
		if err != nil {
			return err
		}
		for _, key := range blocks {
			has[kind{key, true}] = true
		}
		for _, key := range overrides {
			has[kind{key, false}] = true
		}
		for _, e := range list {
			if !c.replace && has[kind{e.Key, e.Blocks()}] {
				n.kept++
				continue
			}
			for i, l := range e.Limits {
				if other, ok := limits[policy][l.Name]; ok {
					e.Limits[i].Name = other
				}
			}
			if !c.dryRun {
				if err := to.SetException(ctx, name, e); err != nil {
					return err
				}
			}
			n.exceptions++
		}
	}
	return nil
}

func (c *copyFlags) copyAll(ctx context.Context, d *desk, to *redisstore.Store, limits map[string]map[string]string) (n copies, err error) {
	seen := make(map[redisstore.Bucket]bool)
	chosen := func(yield func(redisstore.Bucket, error) bool) {
		for b, err := range d.buckets(ctx, c.only) {
			if _, renamed := c.renames[b.Policy]; err == nil && (seen[b] || len(c.renames) > 0 && !renamed) {
				continue
			}
			if seen[b] = true; !yield(b, err) {
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
		if copied {
			n.copied++
		} else if err == nil {
			n.kept++
		}
		return err
	})
	return n, err
}

// renamedLimits returns the new names of limits, by the old ones, if a policy gets another name.
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

// namesOf returns the names of a policy's limits, also those that the library chooses.
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
