package redisstore

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// evictionWatch asks once whether a server may drop keys to make room, and warns once: a bucket that is dropped is full
// again.
type evictionWatch struct{ once, warned sync.Once }

// look asks every server that holds keys, in the background, after the first decision. A user that may not ask,
// and a server that doesn't answer, are no trouble.
func (w *evictionWatch) look(s *server) {
	w.once.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.patience())
			defer cancel()
			_ = s.each(ctx, func(ctx context.Context, one redis.UniversalClient, _ bool) error {
				memory, err := one.Info(ctx, "memory").Result()
				if err != nil {
					return err
				}
				policy, bounded := evictionPolicy(memory)
				if bounded && policy != "" && policy != "noeviction" && policy != "volatile-ttl" {
					w.warned.Do(func() {
						s.log().Warn("ratelimit: this Redis drops limits when its memory is full, and a dropped limit is full again: set maxmemory-policy to noeviction or volatile-ttl",
							"code", "RL714", "maxmemory-policy", policy, "server", address(one))
					})
				}
				return nil
			})
		}()
	})
}

// address is where a server is, or "" if that is not known.
func address(one redis.UniversalClient) string {
	if c, ok := one.(*redis.Client); ok {
		return c.Options().Addr
	}
	return ""
}

// evictionPolicy reads the memory section of INFO.
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
