package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

func newOverrideCommand() *cobra.Command {
	var (
		f      exceptionFlags
		remove bool
	)
	cmd := &cobra.Command{
		Use:   "override POLICY KEY LIMIT…",
		Short: "Give a client other limits, without a deploy",
		Long: `Give a client other limits, without a deploy. Each LIMIT, such as 1000/day,
replaces a limit of the client, and the others stay. If the client has several,
name it: '1000/day name daily'. It is written into Redis beside the buckets, and
comes before the policy's own overrides.

If Redis has no bucket of the key, and has keys or policies that may be meant,
nothing is written, and the exit code is 1: add --new for a client that has not
come yet.
With --remove the exit code is 1 if Redis has no override.`,
		Example: `  ratelimit override api x-api-key:ann '1000/day name daily' --for 2h --policies policies.yaml
  ratelimit override api x-api-key:ann --remove`,
		Args: cobra.MinimumNArgs(2),
	}
	f.define(cmd, true)
	cmd.Flags().BoolVar(&remove, "remove", false, "end the client's override")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, err := givenKey(args[1])
		if err != nil {
			return err
		}
		texts := args[2:]
		switch {
		case remove && len(texts) > 0:
			return misuse("--remove ends the override: give no limit")
		case !remove && len(texts) == 0:
			return misuse("name at least one limit, such as '1000/day name daily', or --remove")
		case !remove && f.file == "":
			return misuse("override needs --policies FILE: it has the limits that are replaced")
		}
		d, err := f.open(cmd, args[0])
		if err != nil {
			return err
		}
		defer d.close()
		if remove {
			return d.remove(cmd, &f, args[0], key, true)
		}
		limits, changes, err := d.replaced(cmd.Context(), args[0], key, texts)
		if err != nil {
			return d.explain(err)
		}
		return d.set(cmd, &f, args[0], redisstore.Exception{Key: key, Limits: limits}, "override", changes)
	}
	return cmd
}

// replaced returns the override of a key with the limits of texts, each with
// the name of the limit that it replaces, of those that the key was last decided
// by. What operators have overridden before stays. changes say what is new.
func (d *desk) replaced(ctx context.Context, policy, key string, texts []string) (override []core.Limit, changes []string, err error) {
	rules, err := d.rulesOf(ctx, policy)
	if err != nil {
		return nil, nil, err
	}
	if rules, _, err = rules.last(ctx, d.store, key); err != nil {
		return nil, nil, err
	}
	res, err := rules.limiter.Peek(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	override = slices.Clone(rules.limiter.Exceptions().Overrides[key])
	for _, text := range texts {
		l, err := core.ParseLimit(text)
		if err != nil {
			return nil, nil, misuse("%w", err)
		}
		before, err := counterpart(l, res.Limits())
		if err != nil {
			return nil, nil, err
		}
		if l.Name = before.Name; l.MaxHold == 0 {
			l.MaxHold = before.MaxHold
		}
		override = append(slices.DeleteFunc(override, func(o core.Limit) bool { return o.Name == l.Name }), l)
		changes = append(changes, fmt.Sprintf("%s: %s, was %s", show.Text(l.Name), unnamed(l), unnamed(before)))
	}
	return override, changes, nil
}

// counterpart returns which of limits one replaces: that of its name, or without
// a name the only one.
func counterpart(l core.Limit, limits []core.LimitResult) (core.Limit, error) {
	var names []string
	for _, other := range limits {
		names = append(names, other.Limit.Name)
		if l.Name == other.Limit.Name || l.Name == "" && len(limits) == 1 {
			return other.Limit, nil
		}
	}
	if l.Name == "" {
		return l, misuse("which limit does %s replace? Name it, such as '%s name %s' (there are %s)", l, l, names[0], strings.Join(names, ", "))
	}
	return l, misuse("the client has no limit %s%s", show.Text(l.Name), meant(l.Name, names))
}

// unnamed is a limit's text without its name.
func unnamed(l core.Limit) string {
	l.Name = ""
	return l.String()
}
