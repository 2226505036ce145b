package migration

import (
	"io"

	"github.com/juju/ratelimit"
)

// JujuBefore copies src to dst at 64 KiB a second, after a burst of 256 KiB.
func JujuBefore(dst io.Writer, src io.Reader) (int64, error) {
	bucket := ratelimit.NewBucketWithRate(64<<10, 256<<10)
	return io.Copy(dst, ratelimit.Reader(src, bucket))
}
