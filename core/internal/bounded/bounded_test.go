package bounded_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tokenbucket-go/ratelimit/core/internal/bounded"
)

// recorder is a test that keeps what it is told.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }

func TestCheckThatHangsFailsWithItsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told recorder
		release := make(chan struct{})
		reached := false
		bounded.Check(&told, "slots come back", time.Minute, func(t testing.TB) {
			<-release
			t.Errorf("too late")
			reached = true
		})
		if len(told.errors) != 1 || !strings.Contains(told.errors[0], "the rule: slots come back") {
			t.Errorf("a check that hangs was reported as %q", told.errors)
		}
		close(release)
		synctest.Wait()
		if len(told.errors) != 1 || reached {
			t.Errorf("after its end the test was told %q, and its check went on: %v", told.errors, reached)
		}
	})
}

func TestCheckThatFailsEndsWhereItFails(t *testing.T) {
	for name, fail := range map[string]func(testing.TB){
		"Fatal":  func(t testing.TB) { t.Fatal("broken") },
		"Fatalf": func(t testing.TB) { t.Fatalf("%s", "broken") },
	} {
		var told recorder
		reached := false
		bounded.Check(&told, "a rule", time.Minute, func(t testing.TB) { fail(t); reached = true })
		if len(told.errors) != 1 || told.errors[0] != "broken" || reached {
			t.Errorf("%s: the test was told %q, and its check went on: %v", name, told.errors, reached)
		}
	}
}
