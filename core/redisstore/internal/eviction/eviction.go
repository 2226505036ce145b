// Package eviction warns of servers that drop keys when their memory is full.
package eviction

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core/redisstore/internal/address"
)

// Servers are those that hold keys.
type Servers interface {
	// Each calls do with a client of each server. several is whether there are
	// more than one.
	Each(ctx context.Context, do func(ctx context.Context, one redis.UniversalClient, several bool) error) error
	// ConnectTimeout is how long a connection may take to be set up.
	ConnectTimeout() time.Duration
	// Log is where warnings go.
	Log() *slog.Logger
}

// Watch finds out once whether a server may drop keys when its memory is full,
// and warns once: a dropped bucket is full again.
type Watch struct{ once, warned sync.Once }

// Look asks every server in the background, the first time it is called. It
// ignores errors, such as of a user without the right to INFO.
func (w *Watch) Look(s Servers) {
	w.once.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.ConnectTimeout())
			defer cancel()
			_ = s.Each(ctx, func(ctx context.Context, one redis.UniversalClient, _ bool) error {
				memory, err := one.Info(ctx, "memory").Result()
				if err != nil {
					return err
				}
				policy, bounded := policyOf(memory)
				if bounded && policy != "" && policy != "noeviction" {
					w.warned.Do(func() {
						s.Log().Warn("ratelimit: this Redis drops limits when its memory is full, and a dropped limit is full again: set maxmemory-policy to noeviction; if other data needs to be dropped, give the limits a server of their own",
							"code", "RL714", "maxmemory-policy", policy, "drops", drops(policy), "server", address.Of(one))
					})
				}
				return nil
			})
		}()
	})
}

// drops says for the log which limits a maxmemory-policy drops, as measured for
// docs/reliability.md.
func drops(policy string) string {
	switch {
	case strings.HasSuffix(policy, "-ttl"):
		return "fast limits first, before data that lives longer"
	case strings.HasSuffix(policy, "-lru"):
		return "limits of keys that rest, quotas above all"
	case strings.HasSuffix(policy, "-lfu"):
		return "limits of keys that are seldom used, quotas above all"
	}
	return "any limit, however busy its key is"
}

// policyOf reads the maxmemory-policy from the memory section of INFO, and
// whether there is a maxmemory.
func policyOf(info string) (policy string, bounded bool) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory_policy":
			policy = value
		case "maxmemory":
			bounded = value != "0"
		}
	}
	return policy, bounded
}
