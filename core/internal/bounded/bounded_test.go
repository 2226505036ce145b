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
	said  []string
	fails int
}

func (r *recorder) Helper()         {}
func (r *recorder) Log(args ...any) { r.said = append(r.said, fmt.Sprint(args...)) }
func (r *recorder) Fail()           { r.fails++ }
func (r *recorder) Errorf(format string, args ...any) {
	r.Log(fmt.Sprintf(format, args...))
	r.Fail()
}

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
		if len(told.said) != 1 || !strings.Contains(told.said[0], "the rule: slots come back") {
			t.Errorf("a check that hangs was reported as %q", told.said)
		}
		close(release)
		synctest.Wait()
		if len(told.said) != 1 || reached {
			t.Errorf("after its end the test was told %q, and its check went on: %v", told.said, reached)
		}
	})
}

func TestCheckThatPanicsFailsWithItsRule(t *testing.T) {
	var told recorder
	bounded.Check(&told, "a rule", time.Minute, func(testing.TB) { panic("of the adapter") })
	if told.fails != 1 || !strings.HasPrefix(told.said[0], "the rule: a rule\npanic: of the adapter") {
		t.Errorf("a check that panics was reported as %q", told.said)
	}
}

func TestCheckThatFailsEndsWhereItFails(t *testing.T) {
	for _, fail := range []func(testing.TB){func(t testing.TB) { t.Fatal("broken") }, func(t testing.TB) { t.Fatalf("%s", "broken") }} {
		var told recorder
		bounded.Check(&told, "a rule", time.Minute, func(t testing.TB) { fail(t); t.Errorf("it went on") })
		if len(told.said) != 1 || told.said[0] != "broken" || told.fails != 1 {
			t.Errorf("the test was told %q", told.said)
		}
	}
}
