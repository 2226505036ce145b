package outgoing

import (
	"errors"
	"fmt"
	"time"
)

// ErrQueueFull means that a request was not sent, because as many wait for its
// key as may wait.
var ErrQueueFull = errors.New("ratelimit: too many requests wait already (RL622)")

// Error means that a request was not sent, because it would have waited for too
// long, or too many wait already. It wraps [ErrQueueFull], core.ErrDeadline or
// core.ErrCapacity.
type Error struct {
	Key    string
	Reason Reason    // what it would have waited for
	Until  time.Time // when it could have been sent at the earliest; zero: that is not known, or never
	Err    error
}

// Error names the key, the reason and the time.
func (e *Error) Error() string {
	text := fmt.Sprintf("ratelimit: not sent to %s", e.Key)
	if e.Reason != "" {
		text += ": " + string(e.Reason)
	}
	if !e.Until.IsZero() {
		text += " until " + e.Until.Format(time.RFC3339)
	}
	return text + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Reason is what a request waits for.
type Reason string

const (
	ForPause Reason = "the server has asked to wait" // the pause after a refusal, or its probe
	ForPace  Reason = "the pace that the server's limits allow"
	ForLimit Reason = "the limiter" // of the client
	ForTurn  Reason = "others that came before"
)
