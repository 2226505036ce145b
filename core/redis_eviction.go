package core

import (
	"context"
	"strings"
	"sync"
)

// evictionWatch warns once when the server may drop limits to make room: a bucket that is dropped is
// full again.
type evictionWatch struct{ once sync.Once }

// look asks the server, in the background, after the first decision that it made. A user that may not
// ask, and a server that doesn't tell, are no trouble.
func (w *evictionWatch) look(s *RedisStore) {
	w.once.Do(func() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
			defer cancel()
			memory, err := s.client.Info(ctx, "memory").Result()
			if err != nil {
				return
			}
			policy, bounded := evictionPolicy(memory)
			if bounded && policy != "noeviction" && policy != "volatile-ttl" {
				s.log().Warn("ratelimit: this Redis drops limits when its memory is full, and a dropped limit is full again: set maxmemory-policy to noeviction or volatile-ttl",
					"maxmemory-policy", policy)
			}
		}()
	})
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
