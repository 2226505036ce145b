package redisstore

import (
	"log/slog"
	"sync"
)

// warnUnread logs that exceptions can't be read.
func warnUnread(log *slog.Logger, err error) {
	log.Warn("ratelimit: not all exceptions in Redis could be read; those that were read are in force", "code", "RL718", "error", err)
}

// pollOutage logs that Redis can't be read, once for all policies. Its end is when all of them were read again.
type pollOutage struct {
	log func() *slog.Logger

	mu      sync.Mutex      // guards all below
	failing map[string]bool // by policy
}

// note takes in the last poll of a policy. err is why it failed, unless that concerns this policy alone.
func (o *pollOutage) note(policy string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		delete(o.failing, policy)
		return
	}
	if len(o.failing) == 0 {
		warnUnread(o.log(), err)
	}
	o.failing[policy] = true
}
