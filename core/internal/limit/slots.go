package limit

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
)

const (
	// maxSlots bounds the slots of a limit: with so many in use, a decision keeps a Redis server busy for a fifth longer than with one.
	maxSlots = 1000
	// MaxHold is from leastHold to mostHold.
	leastHold, mostHold = time.Millisecond, 30 * 24 * time.Hour
)

// slotMistakes reports what is wrong with a limit of slots.
func (l Limit) slotMistakes(wrong func(name string, value any, reason string)) {
	if l.Capacity < 1 || l.Capacity > maxSlots {
		wrong("Capacity", l.Capacity, slotRange)
	}
	const none = "must be left out in the Concurrent mode: its tokens are slots, which come back when they are released"
	if l.RefillRate != 0 {
		wrong("RefillRate", l.RefillRate, none)
	}
	if l.RefillInterval != 0 {
		wrong("RefillInterval", l.RefillInterval, none)
	}
	if l.Location != nil {
		wrong("Location", l.Location.String(), none)
	}
	if !l.Anchor.IsZero() {
		wrong("Anchor", l.Anchor.Format(time.RFC3339), none)
	}
}

// slotRange is the reason for a number of slots that no limit has.
var slotRange = "must be from 1 to " + strconv.Itoa(maxSlots) + " slots"

// holdMistakes reports what is wrong with MaxHold.
func (l Limit) holdMistakes(wrong func(name string, value any, reason string)) {
	switch reason := BadHold(l.MaxHold); {
	case l.MaxHold == 0:
	case l.MaxHold == NoHold:
		wrong("MaxHold", time.Duration(0), reason)
	case reason != "" && l.MaxHold > 0 && l.MaxHold < 100*time.Microsecond: // a number of seconds without a unit
		wrong("MaxHold", l.MaxHold, fmt.Sprintf("%s: a number without a unit counts nanoseconds, so write %d*time.Second if you mean that", reason, int64(l.MaxHold)))
	case reason != "":
		wrong("MaxHold", l.MaxHold, reason)
	case l.Mode != bucket.Concurrent && !l.OtherUnit():
		wrong("MaxHold", l.MaxHold, "must be left out here: it is for slots, and for limits of another unit than requests, of which a request takes an estimate")
	}
}

// BadHold returns why no limit can have a MaxHold that is given, or "".
func BadHold(hold time.Duration) string {
	if hold < leastHold || hold > mostHold {
		return "must be from 1ms to 720h (30 days)"
	}
	return ""
}
