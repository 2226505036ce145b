package redisstore

import (
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// serverClock adds [core.ErrClock] to err if err is the script's reply that the server's clock is out of range.
func serverClock(err error) error {
	if strings.Contains(serverText(err), "the clock of this server is not between") {
		return fmt.Errorf("%w: %w", core.ErrClock, err)
	}
	return err
}
