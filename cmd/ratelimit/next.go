package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// next returns what the next request of a key sees: by a plan or the limits
// that decided it last, by overrides and blocks.
func (d *desk) next(ctx context.Context, limiter *core.Limiter, key, plan string, units core.Units) (*state.Bucket, error) {
	rules := d.rulesOf(ctx, limiter).For(plan)
	if rules == nil {
		return nil, cli.Misuse("-plan: %s has no plan %s%s", limiter.Name(), show.Text(plan), nearest(plan, slices.Sorted(maps.Keys(limiter.Policy().Plans))))
	}
	b, err := state.Of(ctx, rules, key, units)
	if err != nil {
		return nil, d.Explain(err)
	}
	return b, nil
}

// denials are which denials of the next request a command reports by its exit
// code.
type denials int

const (
	reportNone   denials = iota
	reportBlocks         // of somebody who blocks the key
	reportAny            // also of limits: the command was to let the client in
)

// sees says what the next request of a key sees after a change. The error is
// cli.ErrFound if it is denied, and of that kind.
func (d *desk) sees(ctx context.Context, s cli.Streams, limiter *core.Limiter, key string, report denials) (unused bool, err error) {
	if err := d.Store.ReadExceptions(ctx, limiter); err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(d.errs, "warning: %v\n", d.Explain(err))
	}
	blocker := oncall.RulesOf(limiter).Blocker(key)
	b, err := d.next(ctx, limiter, key, "", nil)
	if ctx.Err() != nil {
		return false, cli.After(ctx.Err(), "The change is made.")
	}
	if err != nil { // the change is made
		b = &state.Bucket{Blocked: blocker != "", Says: "not known: " + err.Error()}
		if b.Blocked {
			b.Says = oncall.Blocked(blocker)
		}
	}
	_ = show.Paragraph(s.Out, 4, "  The next request: "+b.Says+".")
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
	if !shadow && (report == reportBlocks && b.Blocked || report == reportAny && !b.Allowed && !b.Unknown) {
		return b.Unused, cli.ErrFound
	}
	return b.Unused, nil
}

// inShadow follows what would be denied.
const inShadow = "The policy is in shadow mode: it denies nobody."
