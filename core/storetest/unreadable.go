package storetest

import (
	"errors"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

var unreadableRules = []storeRule{
	{"a key whose state can't be used is reported, and no other key notices", unreadableReported},
}

// lines collects what a logger writes.
type lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// unreadableReported crowds a key with more limits than a store keeps of one:
// state of which no store can add another limit.
func unreadableReported(s *subject) {
	var log lines
	l, err := core.NewLimiter(s.store, core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(1)}, OnFailure: core.FailClosed},
		core.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	s.no(err)
	counted := func() int64 {
		if c, ok := s.store.(store.Configured); ok && c.Config() != nil {
			return c.Config().Unreadable()
		}
		return -1
	}
	const crowded = "crowded-user"
	before, failed := counted(), int64(0)
	for list := range 8 { // twice as many as fit
		var limits []core.Limit
		for i := range 64 {
			limits = append(limits, core.PerDay(1000).WithName("limit-"+strconv.Itoa(64*list+i)))
		}
		tier, err := l.WithLimits(limits...)
		s.no(err)
		switch _, err := tier.Allow(s.Context(), crowded); {
		case err == nil:
		case !errors.As(err, new(*store.StateError)):
			s.Fatalf("state that can't be used is a StateError: Allow of a key under %d limits = %v", 64*(list+1), err)
		default:
			failed++
		}
	}
	if failed == 0 {
		return // the store keeps as many
	}
	if !strings.Contains(log.String(), "RL716") {
		s.Errorf("a key that can't be used is logged: %d answers, and the log has\n%s", failed, log.String())
	}
	if !regexp.MustCompile(`policy=api key=[0-9a-f]{12} `).MatchString(log.String()) || strings.Contains(log.String(), crowded) {
		s.Errorf("the line shows the policy and the hashed key:\n%s", log.String())
	}
	if after := counted(); before >= 0 && after-before != failed {
		s.Errorf("each answer that a key can't be used is counted: %d of them, %d counted", failed, after-before)
	}
	s.grants(l, 1, 0, "another key is decided as ever")
}
