package core

import (
	"context"
	"log/slog"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

func init() { //nolint:gochecknoinits // packages that core imports can't import core
	hook.Counts = (*Limiter).counts
	hook.Snapshot = (*Limiter).snapshot
	hook.Require = func(l *Limiter, unit string) { l.taken.add(unit) }
	hook.Logger = func(l *Limiter) *slog.Logger {
		if l == nil {
			return slog.Default()
		}
		return l.watch.warnings()
	}
	hook.PreparePolicy = func(l *Limiter, p Policy) (func(set bool), error) { return l.preparePolicy(p) }
	hook.AllowAll = (*Limiter).allowAll
	hook.HoldsEstimates = func(r Result) bool { return r.hasEstimates() }
	hook.Keep = func(r Result) bool { return r.keep() }
	hook.ReleaseSoon = func(r Result) { r.releaseSoon() }
	hook.InTurn = (*Limiter).inTurn
	hook.Waited = func(l *Limiter, key string) bool { return l.waiters.any(key) }
	hook.State = (*Limiter).state
	hook.Pack = pack
	hook.Unpack = unpack
	hook.WriteHeaders = func(r Result, room *field.Room, h field.Header) { r.writeHeaders(room, h) }
	hook.Order = func(r Result) []int { return r.order() }
	hook.Unsettled = func(ctx context.Context, r Result, why error) { r.unsettled(ctx, why) }
}

// pack is hook.Pack.
func pack(r Result) (p hook.PackedResult, writes bool) {
	a := &r.answer
	packs := r.set != nil && len(r.set.Rates) == 1 && a.Allowed &&
		r.Source == Source(a.Source) && r.Cause == nil && r.due == 0 && r.held == nil && r.each == nil && !r.inShadow && !r.untaken
	if packs {
		p = hook.PackedResult{From: r.set, Now: a.Now, Cost: r.Cost, Level: *a.Levels.At(0), Once: r.once, Source: uint8(a.Source), Headers: uint8(r.headers)}
	} else {
		whole := r
		p = hook.PackedResult{From: &whole, Once: r.once}
	}
	return p, r.writesHeaders()
}

// unpack is hook.Unpack.
func unpack(p *hook.PackedResult, l *Limiter, key string) (r Result) {
	switch from := p.From.(type) {
	case *Result:
		r = *from
	case *limitSet:
		r.answer.Allowed, r.answer.Now, r.answer.Source = true, p.Now, bucket.Source(p.Source)
		*r.answer.Levels.At(0) = p.Level
		r.headers = HeaderStyle(p.Headers)
		r.read(from, p.Cost, nil)
	}
	r.limiter, r.Key = l, key
	if r.once = p.Once; r.once == nil {
		r.once = &p.Ended
	}
	return r
}
