package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var overrideCommand = cli.Command{
	Name: "override", Args: "POLICY [KEY] [LIMIT…]", Least: 1, Most: -1,
	About: "give a client other limits, without a deploy",
	Details: `Each LIMIT, such as 1000/day, replaces a limit of the client, and the others stay. If the policy has several, name it: '1000/day name daily'.
x10 multiplies what the client's plan says, 'x10 name daily' one limit of it.
It is written into Redis beside the buckets, and comes before the policy's own overrides. KEY is that of the command get.

  ratelimit override -policies policies.yaml api -header x-api-key=abc '1000/day name daily' -for 2h
  ratelimit override -policies policies.yaml api -header x-api-key=abc -remove

It says what the next request sees. The exit code is 1 if that is denied; with
-remove, if somebody blocks the client, or if Redis has no override.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var e exceptionFlags
		e.define(flags)
		flags.BoolVar(&e.remove, "remove", false, "end the client's override")
		return e.override
	},
}

func (e *exceptionFlags) override(ctx context.Context, s cli.Streams, args []string) error {
	d, limiter, key, texts, err := e.subject(ctx, s, "override", args)
	if err != nil {
		return err
	}
	defer d.Close()
	switch {
	case e.remove && (len(texts) > 0 || e.lasts > 0):
		return cli.Misuse("-remove ends the override: give no limit and no -for")
	case e.remove:
		return e.end(ctx, s, d, limiter, key, true, reportBlocks)
	case len(texts) == 0:
		return cli.Misuse("override: name at least one limit, such as '1000/day name daily', or x10, or -remove")
	}
	limits, changes, err := replaced(ctx, limiter, key, texts)
	if err != nil {
		return d.Explain(err)
	}
	override := redisstore.Exception{Key: key, Limits: limits, For: e.lasts, By: e.author(), Reason: e.reason}
	if err := d.change(ctx, func(ctx context.Context) error { return d.Store.SetException(ctx, args[0], override) }); err != nil {
		return err
	}
	_ = show.Line(s.Out, args[0]+" "+d.text(key), "has an override "+e.period()+":")
	if len(changes) == 0 {
		changes = []string{"its limits are as before"}
	}
	for _, change := range changes {
		_ = show.Paragraph(s.Out, 4, "  "+change)
	}
	return e.after(ctx, s, d, limiter, key, reportAny)
}

// replaced returns the override of a key with the limits of texts, each with
// the name of the limit that it replaces or multiplies, of those that the key
// was last decided by. What operators have overridden before stays, and other
// limits are no part of it. changes say in words what is new. limiter, which is
// this command's own, obeys the override afterwards.
func replaced(ctx context.Context, limiter *core.Limiter, key string, texts []string) (override []core.Limit, changes []string, err error) {
	rules, _, err := oncall.RulesOf(limiter).Last(ctx, key)
	if err != nil && !errors.As(err, new(*store.StateError)) {
		return nil, nil, err
	}
	limits := func() (limits []core.Limit, err error) {
		res, err := rules.Limiter.PeekUnits(ctx, key, rules.Request(key))
		for _, r := range res.Limits() {
			limits = append(limits, r.Limit)
		}
		return limits, err
	}
	before, err := limits()
	if err != nil {
		return nil, nil, err
	}
	exceptions := limiter.Exceptions()
	override = slices.Clone(exceptions.Overrides[key])
	given := make(map[string]bool)
	for _, text := range texts {
		l, err := core.ParseLimit(text)
		if err == nil && (l.Times == 0 || l.Name != "") {
			l, err = named(l, before)
		}
		if err != nil {
			return nil, nil, cli.Misuse("%v", err)
		} else if given[l.Name] {
			return nil, nil, cli.Misuse("two limits replace %s: give each once", cmp.Or(l.Name, "all"))
		}
		given[l.Name] = true
		override = append(slices.DeleteFunc(override, func(other core.Limit) bool { return other.Name == l.Name }), l)
	}
	if exceptions.Overrides == nil {
		exceptions.Overrides = make(map[string][]core.Limit)
	}
	exceptions.Overrides[key] = override
	if err = limiter.SetExceptions(exceptions); err != nil {
		return nil, nil, err
	}
	after, err := limits()
	if err != nil {
		return nil, nil, err
	}
	for i, l := range after { // an override adds no limit, as each replaces one that there is
		if is, was := unnamed(l), unnamed(before[i]); is != was || given[l.Name] {
			changes = append(changes, fmt.Sprintf("%s: %s, was %s", l.Name, is, was))
		}
	}
	return override, changes, nil
}

// named returns l with the name of the limit that it replaces or multiplies,
// and a hold as that has.
func named(l core.Limit, limits []core.Limit) (core.Limit, error) {
	i, err := counterpart(l, limits)
	if err != nil {
		return l, err
	}
	if l.Name = limits[i].Name; l.MaxHold == 0 && l.Times == 0 {
		l.MaxHold = limits[i].MaxHold
	}
	return l, nil
}

// unnamed is a limit's text without its name.
func unnamed(l core.Limit) string {
	l.Name = ""
	return l.String()
}

// counterpart returns which of limits one replaces: that of its name; or
// without a name the only one that counts the same, or the only one of these
// with the same interval.
func counterpart(l core.Limit, limits []core.Limit) (int, error) {
	names := make([]string, 0, len(limits))
	var alike, same []int
	for i, other := range limits {
		names = append(names, other.Name)
		if l.Times != 0 && l.Name == other.Name {
			return i, nil
		}
		if cmp.Or(other.Unit, core.Requests) != cmp.Or(l.Unit, core.Requests) || (other.Mode == core.Concurrent) != (l.Mode == core.Concurrent) {
			if other.Name == l.Name {
				return 0, cli.Misuse("limit %s counts something else: it is %s", l.Name, unnamed(other))
			}
			continue
		}
		if l.Name != "" && l.Name != other.Name {
			continue
		}
		if alike = append(alike, i); other.RefillInterval == l.RefillInterval {
			same = append(same, i)
		}
	}
	if len(alike) != 1 && l.Name == "" {
		alike = same
	}
	switch {
	case len(alike) == 1:
		return alike[0], nil
	case l.Name == "":
		return 0, cli.Misuse("which limit does %s replace? Name it, such as '%s name %s' (there are %s)", l, l, names[0], strings.Join(names, ", "))
	}
	return 0, cli.Misuse("the client has no limit %s%s", show.Text(l.Name), nearest(l.Name, names))
}
