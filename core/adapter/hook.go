package adapter

import (
	"log/slog"
	"net/netip"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/hook"
)

// What core lends to middleware.
var (
	logger      = hook.Logger.(func(*core.Limiter) *slog.Logger)
	client      = hook.Client.(func(c *core.ClientIP, peer string, addr netip.Addr, from interface{ Header(string) []string }) (netip.Prefix, string, error))
	warnOfProxy = hook.WarnOfProxy.(func(log *slog.Logger, peer, field string))
)
