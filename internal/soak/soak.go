// Package soak tells tests how much to do. ./scripts/test checks each rule
// once, within minutes. ./scripts/soak checks all that there is: it sets SOAK to
// the share of their budgets that tests have, 1 for all.
package soak

import (
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// On reports whether the tests run under ./scripts/soak.
func On() bool { return os.Getenv("SOAK") != "" }

// Only skips a test outside ./scripts/soak, and in short runs of that by lot: as
// many run as SOAK says, other ones each time. quick is the test that shows the
// same rule in ./scripts/test: another one, or the one of which t is a subtest.
func Only(t testing.TB, quick func(*testing.T)) {
	t.Helper()
	name := runtime.FuncForPC(reflect.ValueOf(quick).Pointer()).Name()
	name = name[strings.LastIndexByte(name, '.')+1:]
	if t.Name() == name {
		t.Fatalf("%s can't show its own rule: outside ./scripts/soak it would not run", name)
	}
	if !On() {
		t.Skipf("runs in ./scripts/soak; %s shows its rule", name)
	}
	if rand.Float64() >= share() {
		t.Skipf("not chosen in this run of ./scripts/soak; %s shows its rule", name)
	}
}

// Budget returns few, and under ./scripts/soak many, or as far from few to many
// as SOAK says.
func Budget(few, many int) int {
	return few + int(share()*float64(many-few))
}

// share is what SOAK says.
func share() float64 {
	share, err := strconv.ParseFloat(os.Getenv("SOAK"), 64)
	if err != nil && On() {
		panic("SOAK=" + os.Getenv("SOAK") + " must be a number from 0 to 1")
	}
	return max(0, min(1, share))
}
