package redisstore

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// TestStatsAwayNeverDecreases: monitoring takes a counter that decreases for one that was reset, and counts it again.
func TestStatsAwayNeverDecreases(t *testing.T) {
	s := New(nil, WithBreaker(1, time.Microsecond), core.WithLogger(slog.New(slog.DiscardHandler)))
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
				away := s.Stats().Away
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
			report, err := s.flights.breaker.enter()
			for err != nil { // the breaker is open for a microsecond
				report, err = s.flights.breaker.enter()
			}
			report(result)
		}
	}
	close(stop)
	readers.Wait()
}
