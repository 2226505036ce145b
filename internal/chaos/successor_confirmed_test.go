package chaos_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// confirmedClient returns a client whose decisions fail unless a replica has
// them in time.
func confirmedClient(options *redis.Options, within time.Duration) *redis.Client {
	client := redis.NewClient(options)
	client.AddHook(confirmed{client, within})
	return client
}

// confirmed is the hook that sends WAIT after each decision.
type confirmed struct {
	client *redis.Client
	within time.Duration
}

// ProcessHook sends both commands on one connection, because WAIT is about what
// its own connection wrote.
func (c confirmed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		pipe := c.client.Pipeline()
		_ = pipe.Process(ctx, cmd) // only queues it
		confirm := pipe.Do(ctx, "WAIT", 1, c.within.Milliseconds())
		_, _ = pipe.Exec(ctx) // each command has its own error
		if replicas, _ := confirm.Int(); cmd.Err() == nil && replicas < 1 {
			cmd.SetErr(errors.New("no replica has confirmed the decision"))
		}
		return cmd.Err()
	}
}

func (c confirmed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c confirmed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
