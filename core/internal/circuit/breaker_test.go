package circuit

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// TestAwayNeverDecreases: monitoring takes a counter that decreases for one
// that was reset, and counts it again.
func TestAwayNeverDecreases(t *testing.T) {
	g := Group{Describe: func(error) string { return "" }}
	b := g.New(func() string { return "" }, 1, time.Microsecond, func() *slog.Logger { return slog.New(slog.DiscardHandler) })
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := time.Duration(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				away := g.Away()
				if away < last {
					t.Errorf("Away must never decrease: it went from %v to %v", last, away)
					return
				}
				last = away
			}
		})
	}
	for range 10_000 {
		for _, result := range []error{errors.New("away"), nil} {
			report, err := b.Enter()
			for err != nil { // the breaker is open for a microsecond
				report, err = b.Enter()
			}
			report(result)
		}
	}
	close(stop)
	readers.Wait()
	if g.Opened() != 10_000 || g.Away() == 0 {
		t.Errorf("it opened %d times, for %v", g.Opened(), g.Away())
	}
}
