package migration

import (
	"context"
	"io"

	"github.com/juju/ratelimit"

	"github.com/tokenbucket-go/ratelimit/core"
)

// JujuBefore copies src to dst at 64 KiB a second, after a burst of 256 KiB.
func JujuBefore(dst io.Writer, src io.Reader) (int64, error) {
	return io.Copy(dst, ratelimit.Reader(src, ratelimit.NewBucketWithRate(64<<10, 256<<10)))
}

// JujuAfter copies src to dst at 64 KiB a second, after a burst of 256 KiB. It
// stops when ctx ends.
func JujuAfter(ctx context.Context, dst io.Writer, src io.Reader) (int64, error) {
	limiter, err := core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: "uploads", Limits: []core.Limit{core.PerSecond(64 << 10).WithBurst(256 << 10)},
	})
	if err != nil {
		return 0, err
	}
	return io.Copy(dst, &slowReader{ctx, src, limiter})
}

// slowReader waits after each read until the limiter has a token for every
// byte.
type slowReader struct {
	ctx     context.Context
	src     io.Reader
	limiter *core.Limiter
}

func (r *slowReader) Read(p []byte) (int, error) {
	const key = "all uploads"
	if most := r.limiter.Limits(key)[0].Capacity; int64(len(p)) > most {
		p = p[:most] // a wait for more than the capacity is core.ErrCapacity
	}
	n, err := r.src.Read(p)
	if waited := r.limiter.WaitN(r.ctx, key, int64(n)); waited != nil {
		return n, waited
	}
	return n, err
}
