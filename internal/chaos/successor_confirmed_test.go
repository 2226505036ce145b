package chaos_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// confirmed is a hook: a decision fails unless a replica has it in time.
type confirmed struct {
	client *redis.Client
	within time.Duration
}

func (c confirmed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		pipe := c.client.Pipeline() // one connection: WAIT is about what that wrote
		_ = pipe.Process(ctx, cmd)  // only queues it
		wait := pipe.Do(ctx, "WAIT", 1, c.within.Milliseconds())
		_, _ = pipe.Exec(ctx) // each command has its own error
		if replicas, _ := wait.Int(); cmd.Err() == nil && replicas < 1 {
			cmd.SetErr(errors.New("no replica has confirmed the decision"))
		}
		return cmd.Err()
	}
}

func (c confirmed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c confirmed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
