package redisstore

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// evictionWatch finds out once whether a server may drop keys when its memory is
// full, and warns once: a dropped bucket is full again.
type evictionWatch struct{ once, warned sync.Once }

// look asks every server in the background, the first time it is called. It
// ignores errors, such as of a user without the right to INFO.
func (w *evictionWatch) look(s *batches) {
	w.once.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.connectTimeout())
			defer cancel()
			_ = s.each(ctx, func(ctx context.Context, one redis.UniversalClient) error {
				memory, err := one.Info(ctx, "memory").Result()
				if err != nil {
					return err
				}
				policy, bounded := evictionPolicy(memory)
				if bounded && policy != "" && policy != "noeviction" {
					w.warned.Do(func() {
						s.config.Log().Warn("ratelimit: this Redis drops limits when its memory is full, and a dropped limit is full again: set maxmemory-policy to noeviction; if other data needs to be dropped, give the limits a server of their own",
							"code", "RL714", "maxmemory-policy", policy, "drops", drops(policy), "server", settingsOfClient(one).address)
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

// evictionPolicy reads the maxmemory-policy from the memory section of INFO,
// and whether there is a maxmemory.
func evictionPolicy(info string) (policy string, bounded bool) {
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
