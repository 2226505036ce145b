package spelling_test

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/internal/spelling"
)

func TestDistanceCountsMistakesInTyping(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"burst", "burst", 0},
		{"burts", "burst", 1}, // exchanged
		{"burs", "burst", 1},
		{"burstt", "burst", 1},
		{"bursd", "burst", 1},
		{"brusts", "burst", 2},
		{"", "", 0},
		{"at", "", 2},
	} {
		if got := spelling.Distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q there are %d mistakes, want %d", c.a, c.b, got, c.want)
		}
	}
}
