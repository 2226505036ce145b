// Package bounded ends checks of conformance suites that hang in the code that
// they check. It is a package because the suites of stores and of adapters both
// use it.
package bounded

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// Check calls check, which tests one rule, on a goroutine of its own. If it
// panics, or has not returned after most, Check reports the rule as broken and
// returns. If a check that hangs goes on later, it ends where it next calls its
// t.
func Check(t testing.TB, rule string, most time.Duration, check func(t testing.TB)) {
	t.Helper()
	limited := &test{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				limited.Errorf("the rule: %s\npanic: %v\n%s", rule, p, debug.Stack())
			}
		}()
		check(limited)
	}()
	select {
	case <-done:
	case <-time.After(most):
		limited.end()
		t.Errorf("the rule: %s\nits check did not end within %v", rule, most)
	}
}

// test is a test that may be called after its end, as a [testing.T] may not.
type test struct {
	testing.TB
	mu    sync.Mutex
	ended bool
}

func (t *test) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// do calls f. If the test has ended, it ends the goroutine instead.
func (t *test) do(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		runtime.Goexit()
	}
	f()
}

// Log is for Logf, Error, Errorf, Fatal and Fatalf too.
func (t *test) Log(args ...any) {
	t.TB.Helper()
	t.do(func() { t.TB.Log(args...) })
}

func (t *test) Fail() { t.do(t.TB.Fail) }

func (t *test) FailNow() {
	t.Fail()
	runtime.Goexit()
}

func (t *test) Logf(format string, args ...any) {
	t.TB.Helper()
	t.Log(fmt.Sprintf(format, args...))
}

func (t *test) Error(args ...any) {
	t.TB.Helper()
	t.Log(args...)
	t.Fail()
}

func (t *test) Errorf(format string, args ...any) {
	t.TB.Helper()
	t.Log(fmt.Sprintf(format, args...))
	t.Fail()
}

func (t *test) Fatal(args ...any) {
	t.TB.Helper()
	t.Log(args...)
	t.FailNow()
}

func (t *test) Fatalf(format string, args ...any) {
	t.TB.Helper()
	t.Log(fmt.Sprintf(format, args...))
	t.FailNow()
}

func (t *test) Cleanup(f func()) {
	t.do(func() { t.TB.Cleanup(f) })
}
