// Package soak tells tests how much to do. ./scripts/test checks each rule
// once, within minutes. ./scripts/soak sets SOAK=1 and checks all that there
// is.
package soak

import (
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// On reports whether the tests run under ./scripts/soak.
func On() bool { return os.Getenv("SOAK") != "" }

// Only skips a test outside ./scripts/soak. quick is the test that shows the
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
}

// Budget returns few, and many under ./scripts/soak.
func Budget(few, many int) int {
	if On() {
		return many
	}
	return few
}
