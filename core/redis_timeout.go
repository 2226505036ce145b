package core

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ownTimeout is a hook on a *redis.Client that runs one store's commands on the same connections with
// the store's timeout: a client's own is seconds, and a call that is stuck that long keeps its
// connection from others. All other commands pass it by.
//
// It is a hook because a client made by WithTimeout has lost the hooks of the original, so tracing
// would not see the limiter's commands.
type ownTimeout struct {
	store *RedisStore
	quick *redis.Client
}

func (ownTimeout) DialHook(next redis.DialHook) redis.DialHook { return next }

func (ownTimeout) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h ownTimeout) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(charge); ok && c.store == h.store {
			return h.quick.Process(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}
