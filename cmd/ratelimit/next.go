package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// next returns what the next request of a key sees: by a plan or the limits that decided it last, by overrides and blocks.
func (d *desk) next(ctx context.Context, limiter *core.Limiter, key, plan string, units core.Units) (*state.Bucket, error) {
	rules, err := d.rulesOf(ctx, limiter).For(plan)
	if err != nil {
		return nil, cli.Misuse("-plan: %v", err)
	}
	if rules.Owner(key) == oncall.Operator {
		list, _ := d.Store.Exceptions(ctx, limiter.Name()) // reading them for limiter has warned
		for _, x := range list {
			if x.Key == key && !x.Blocks() {
				rules.Describe(key, about(x))
			}
		}
	}
	b, err := state.Of(ctx, rules, key, units)
	if err != nil {
		return nil, d.Explain(err)
	}
	return b, nil
}

// rulesOf returns what a limiter has in force, and knows which overrides have ended in the last day.
func (d *desk) rulesOf(ctx context.Context, limiter *core.Limiter) *oncall.Rules {
	rules := oncall.RulesOf(limiter)
	ended := sync.OnceValue(func() []string {
		_, overrides, _ := d.Store.EndedExceptions(ctx, limiter.Name()) // reading exceptions has warned
		return overrides
	})
	rules.Ended = func(key string) bool { return slices.Contains(ended(), key) }
	return rules
}

// denials are which denials of the next request a command reports by its exit code.
type denials int

const (
	reportNone   denials = iota
	reportBlocks         // of somebody who blocks the key
	reportAny            // also of limits: the command was to let the client in
)

// sees says what the next request of a key sees after a change. The error is cli.ErrFound if it is denied, and of that kind.
func (d *desk) sees(ctx context.Context, s cli.Streams, limiter *core.Limiter, key string, report denials) (unused bool, err error) {
	if err := d.Store.ReadExceptions(ctx, limiter); err != nil {
		_, _ = fmt.Fprintf(d.errs, "warning: %v\n", d.Explain(err))
	}
	blocker := oncall.RulesOf(limiter).Blocker(key)
	b, err := d.next(ctx, limiter, key, "", nil)
	if err != nil { // the change is made
		b = &state.Bucket{Blocked: blocker != "", Says: "not known: " + err.Error()}
		if b.Blocked {
			b.Says = oncall.Blocked(blocker)
		}
	}
	_, _ = fmt.Fprintf(s.Out, "  The next request: %s.\n", b.Says)
	shadow := d.policies[limiter.Name()].Shadow
	switch {
	case shadow && !b.Allowed:
		_, _ = fmt.Fprintln(s.Out, "  "+inShadow)
	case report == reportNone:
	case blocker == oncall.Operator:
		_, _ = fmt.Fprintln(s.Out, "  ratelimit unblock ends the block.")
	case b.Blocked:
		_, _ = fmt.Fprintf(s.Out, "  %s blocks it: remove it there.\n", show.Text(d.live.file))
	}
	if !shadow && (report == reportBlocks && b.Blocked || report == reportAny && !b.Allowed) {
		return b.Unused, cli.ErrFound
	}
	return b.Unused, nil
}

// inShadow follows what would be denied.
const inShadow = "The policy is in shadow mode: it denies nobody."
