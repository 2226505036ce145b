package adapter

import (
	"log/slog"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// What core lends to middleware.
var logger = hook.Logger.(func(*core.Limiter) *slog.Logger)
