package core

import (
	"context"
	"log/slog"

	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

func init() {
	hook.Counts = (*Limiter).counts
	hook.Snapshot = (*Limiter).snapshot
	hook.Require = func(l *Limiter, unit string) { l.taken.add(unit) }
	hook.Logger = func(l *Limiter) *slog.Logger {
		if l == nil {
			return slog.Default()
		}
		return l.watch.warnings()
	}
	hook.AllowAll = (*Limiter).allowAll
	hook.Keep = keep
	hook.Result = kept
	hook.WriteHeaders = func(r Result, room *field.Room, h HeaderWriter) { r.writeHeaders(room, h) }
	hook.Order = func(j JointResult) []int { return j.order() }
	hook.Unsettled = func(ctx context.Context, j JointResult, why error) { j.unsettled(ctx, why) }
}

// keep is hook.Keep.
func keep(r Result) (k hook.Kept, writes bool) {
	a := &r.answer
	usual := r.plan != nil && len(r.plan.Rates) == 1 && a.Allowed && a.Waits == nil && a.Due == 0 && a.Lent == 0 &&
		r.Source == a.Source && r.Cause == nil && r.ticket == 0 && r.each == nil && !r.inShadow && !r.untaken
	if usual {
		k = hook.Kept{From: r.plan, Now: a.Now, Cost: r.Cost, Level: *a.Levels.At(0), Once: r.once, Source: uint8(a.Source), Headers: uint8(r.headers)}
	} else {
		whole := r
		k = hook.Kept{From: &whole, Once: r.once}
	}
	return k, r.writesHeaders()
}

// kept is hook.Result.
func kept(k *hook.Kept, l *Limiter, key string) (r Result) {
	switch from := k.From.(type) {
	case *Result:
		r = *from
	case *plan:
		r.answer.Allowed, r.answer.Now, r.answer.Source = true, k.Now, Source(k.Source)
		*r.answer.Levels.At(0) = k.Level
		r.headers = HeaderStyle(k.Headers)
		r.read(from, k.Cost, nil)
	}
	r.limiter, r.key = l, key
	if r.once = k.Once; r.once == nil {
		r.once = &k.Ended
	}
	return r
}
