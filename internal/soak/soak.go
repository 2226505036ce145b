// Package soak tells tests how much to do. ./scripts/test checks each rule once, within minutes. ./scripts/soak sets SOAK=1
// and checks all that there is.
package soak

import (
	"os"
	"testing"
)

// On reports whether the tests run under ./scripts/soak.
func On() bool { return os.Getenv("SOAK") != "" }

// Only skips a test outside ./scripts/soak. quick is the name of the test of the same package that shows the same rule in
// ./scripts/test.
func Only(t testing.TB, quick string) {
	t.Helper()
	if !On() {
		t.Skipf("runs in ./scripts/soak; %s shows its rule", quick)
	}
}

// Budget returns few, and many under ./scripts/soak.
func Budget(few, many int) int {
	if On() {
		return many
	}
	return few
}
