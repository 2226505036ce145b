package middleware

import (
	"context"
	"log/slog"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// What core lends to middleware.
var (
	counts         = hook.Counts.(func(l *core.Limiter, key, unit string) bool)
	snapshot       = hook.Snapshot.(func(*core.Limiter) *core.Limiter)
	require        = hook.Require.(func(l *core.Limiter, unit string))
	logger         = hook.Logger.(func(*core.Limiter) *slog.Logger)
	maxHold        = hook.MaxHold.(func(core.Result) time.Duration)
	holdsEstimates = hook.HoldsEstimates.(func(core.Result) bool)
	extend         = hook.Extend.(func(core.Result) error)
	releaseSoon    = hook.ReleaseSoon.(func(core.Result))
	allowAll       = hook.AllowAll.(func(l *core.Limiter, ctx context.Context, key string) (core.Result, error))
	inTurn         = hook.InTurn.(func(l *core.Limiter, ctx context.Context, key string, denied []core.Result, ask func() ([]core.Result, error)) error)
	waited         = hook.Waited.(func(l *core.Limiter, key string) bool)
	pack           = hook.Pack.(func(core.Result) (p hook.PackedResult, writes bool))
	unpack         = hook.Unpack.(func(p *hook.PackedResult, l *core.Limiter, key string) core.Result)
	writeHeaders   = hook.WriteHeaders.(func(core.Result, *field.Room, core.HeaderWriter))
	order          = hook.Order.(func(core.JointResult) []int)
	unsettled      = hook.Unsettled.(func(context.Context, core.JointResult, error))
)
