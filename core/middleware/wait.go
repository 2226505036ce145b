package middleware

import (
	"context"
	"errors"

	"github.com/tokenbucket-go/ratelimit/core"
)

// wait calls ask until it returns no denials, or waiting does not help: then the request is denied, as ask said last. Requests wait in
// their order, behind all others of limiter and key. So a request does not ask at once if others wait, unless it takes nothing.
func wait(ctx context.Context, limiter *core.Limiter, key string, nothing bool, ask func() (denied []core.Result, err error)) error {
	var denied []core.Result
	var err error
	if nothing || !waited(limiter, key) {
		if denied, err = ask(); err != nil || len(denied) == 0 {
			return err
		}
	}
	err = inTurn(limiter, ctx, key, denied, ask)
	if errors.Is(err, core.ErrDeadline) || errors.Is(err, core.ErrCapacity) {
		return nil
	}
	return err
}
