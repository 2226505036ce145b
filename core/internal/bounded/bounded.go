// Package bounded ends tests of conformance suites that hang in the code that they check.
package bounded

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Check calls check, which tests one rule, on a goroutine of its own. If it has not returned after most, Check reports the rule
// as broken and returns. From then on the test that check received ignores what it says, and ends it where it fails.
func Check(t testing.TB, rule string, most time.Duration, check func(t testing.TB)) {
	t.Helper()
	limited := &test{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(limited)
	}()
	select {
	case <-done:
	case <-time.After(most):
		limited.end()
		t.Errorf("the rule: %s\nits check did not end within %v", rule, most)
	}
}

// test is the test of a rule. Once it has ended, it may be called, as a finished [testing.T] may not.
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

// say calls report. If the test has ended, it ends the goroutine instead.
func (t *test) say(report func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		runtime.Goexit()
	}
	report()
}

func (t *test) Log(args ...any)                 { t.Helper(); t.say(func() { t.TB.Log(args...) }) }
func (t *test) Logf(format string, args ...any) { t.Log(fmt.Sprintf(format, args...)) }
func (t *test) Error(args ...any)               { t.Helper(); t.say(func() { t.TB.Helper(); t.TB.Error(args...) }) }
func (t *test) Errorf(format string, args ...any) {
	t.Helper()
	t.say(func() { t.TB.Helper(); t.TB.Errorf(format, args...) })
}
func (t *test) Fail()    { t.say(t.TB.Fail) }
func (t *test) FailNow() { t.Fail(); runtime.Goexit() }
func (t *test) Fatal(args ...any) {
	t.Helper()
	t.Error(args...)
	runtime.Goexit()
}
func (t *test) Fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf(format, args...)
	runtime.Goexit()
}
func (t *test) Cleanup(f func()) { t.say(func() { t.TB.Cleanup(f) }) }
