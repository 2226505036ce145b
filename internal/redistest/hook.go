package redistest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Hook passes everything on. Embed it in hooks that change one thing.
type Hook struct{}

// DialHook passes connections on.
func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook passes commands on.
func (Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook passes pipelines on.
func (Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Keeper is a hook that extends the TTL of scripts' keys to minutes. It is for
// tests with an injected clock: a machine that pauses for a second must not
// lose a key that lives on by that clock.
type Keeper struct {
	Hook

	mu   sync.Mutex
	ttls map[string]time.Duration
}

// keeps is the TTL that a Keeper gives to keys.
const keeps = 10 * time.Minute

// TTL returns the TTL that the last script gave to key, and whether it gave
// one: a script may keep the TTL.
func (k *Keeper) TTL(key string) (ttl time.Duration, set bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ttl = k.ttls[key]
	return ttl, ttl <= keeps-time.Minute || ttl > keeps
}

// ProcessHook records the TTLs of keys that a script may have written, and
// extends them.
func (k *Keeper) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		k.extend(ctx, cmd, next)
		return err
	}
}

// ProcessPipelineHook does so for each script of a pipeline.
func (k *Keeper) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			k.extend(ctx, cmd, func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, []redis.Cmder{cmd}) })
		}
		return err
	}
}

// extend records and extends the TTLs of cmd's keys, if it is a script. send
// sends a command.
func (k *Keeper) extend(ctx context.Context, cmd redis.Cmder, send func(context.Context, redis.Cmder) error) {
	if !strings.HasPrefix(cmd.Name(), "eval") {
		return
	}
	ctx = context.WithoutCancel(ctx)
	args := cmd.Args()
	for _, arg := range args[3 : 3+args[2].(int)] {
		key := arg.(string)
		ttl := redis.NewDurationCmd(ctx, time.Millisecond, "pttl", key)
		_ = send(ctx, ttl)
		_ = send(ctx, redis.NewBoolCmd(ctx, "pexpire", key, keeps.Milliseconds()))
		k.mu.Lock()
		if k.ttls == nil {
			k.ttls = make(map[string]time.Duration)
		}
		k.ttls[key] = ttl.Val()
		k.mu.Unlock()
	}
}
