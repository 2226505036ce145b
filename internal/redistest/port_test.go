package redistest_test

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// A port belongs to whoever got it, also while no server listens there.
func TestPortsAreGivenOnce(t *testing.T) {
	seen := make(map[string]bool)
	for range 400 {
		port, err := redistest.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %s was given twice", port)
		}
		seen[port] = true
	}
}
