package pace_test

import (
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/pace"
)

func TestSleepIsNeverShort(t *testing.T) {
	timer, err := pace.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()
	for _, d := range []time.Duration{-1, 0, 1, 200 * time.Microsecond, 3 * time.Millisecond} {
		began := time.Now()
		if err := timer.Sleep(d); err != nil {
			t.Fatal(err)
		}
		if slept := time.Since(began); slept < d {
			t.Errorf("slept %v, must be at least %v", slept, d)
		}
	}
}

// BenchmarkSleep tells how late a wake-up comes: what it reports beyond 100 µs.
func BenchmarkSleep(b *testing.B) {
	timer, err := pace.NewTimer()
	if err != nil {
		b.Fatal(err)
	}
	defer timer.Close()
	for b.Loop() {
		if err := timer.Sleep(100 * time.Microsecond); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTimeSleep(b *testing.B) {
	for b.Loop() {
		time.Sleep(100 * time.Microsecond)
	}
}
