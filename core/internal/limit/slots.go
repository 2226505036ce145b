package limit

import (
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

const (
	// maxSlots bounds the slots of a limit: with so many in use, a decision keeps a Redis server busy for about 20 µs.
	maxSlots = 1000
	// DefaultMaxHold is the MaxHold of slots without one.
	DefaultMaxHold = time.Minute
	// MaxHold is from leastHold to mostHold.
	leastHold, mostHold = time.Millisecond, 30 * 24 * time.Hour
)

// hold is l's MaxHold with its default.
func (l Limit) hold() time.Duration {
	if l.MaxHold == 0 && l.Mode == bucket.Concurrent {
		return DefaultMaxHold
	}
	return l.MaxHold
}

// slotMistakes reports what is wrong with a limit of slots.
func (l Limit) slotMistakes(wrong func(name string, value any, reason string)) {
	if l.Capacity < 1 || l.Capacity > maxSlots {
		wrong("Capacity", l.Capacity, "must be from 1 to "+strconv.Itoa(maxSlots)+" slots")
	}
	const none = "must be 0 in the Concurrent mode: its tokens are slots, which come back when they are released"
	if l.RefillRate != 0 {
		wrong("RefillRate", l.RefillRate, none)
	}
	if l.RefillInterval != 0 {
		wrong("RefillInterval", l.RefillInterval, none)
	}
	if l.Location != nil || !l.Anchor.IsZero() {
		wrong("Mode", l.Mode, "can't have a Location or an Anchor: its tokens are slots, which come back when they are released")
	}
}

// holdMistakes reports what is wrong with MaxHold.
func (l Limit) holdMistakes(wrong func(name string, value any, reason string)) {
	switch {
	case l.MaxHold == 0:
	case l.MaxHold < leastHold || l.MaxHold > mostHold:
		wrong("MaxHold", l.MaxHold, "must be from 1ms to 720h")
	case l.Mode != bucket.Concurrent && !l.OtherUnit():
		wrong("MaxHold", l.MaxHold, "is for slots (InFlight), and for limits of another unit than requests, of which a request takes an estimate")
	}
}

// slots reads what the text of slots begins with, such as 5 at once or 8 gpus at once. It reports whether s is one.
func (p *parser) slots(s string) bool {
	end := strings.Index(quantity.Lower(s), "at once")
	if end < 0 || strings.Contains(s[:end], "/") {
		return false
	}
	p.limit.Mode, p.rest = bucket.Concurrent, strings.TrimLeft(s[end+len("at once"):], space)
	count, unit, _, reason := cutRate(s[:end] + "/")
	if p.limit.Unit = unit; reason != "" {
		p.wrong("Unit", unit, reason)
	}
	if p.limit.Capacity, reason = quantity.ParseTokens(count); reason != "" {
		p.wrong("Capacity", count, reason)
	}
	return true
}
