package redisstore

import (
	"fmt"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

// microsOf returns at, which an injected clock shows, in µs since 1970; or [core.ErrClock] if stored state can't hold it.
func microsOf(at time.Time) (int64, error) {
	micros, ok := bucket.Instant(at)
	if !ok {
		return 0, fmt.Errorf("%w: %v is not from 1970 to 17 September 2112", core.ErrClock, at)
	}
	return micros, nil
}

// serverClock adds [core.ErrClock] to err if err is the script's reply that the server's clock is out of range.
func serverClock(err error) error {
	if strings.Contains(serverText(err), "the clock of this server is not between") {
		return fmt.Errorf("%w: %w", core.ErrClock, err)
	}
	return err
}
