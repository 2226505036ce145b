package circuit

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// logBench is a breaker and what it logs, in a synctest bubble.
type logBench struct {
	*testing.T

	group   Group
	breaker *Breaker
	text    logtest.Buffer
}

var errAway = errors.New("away")

func onLogBench(t *testing.T, server string, test func(b *logBench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &logBench{T: t, group: Group{Name: "the store", Describe: func(error) string { return "the store does not answer" }}}
		logger := slog.New(slog.NewTextHandler(&b.text, nil))
		b.breaker = b.group.New(func() string { return server }, 3, 500*time.Millisecond, func() *slog.Logger { return logger })
		test(b)
	})
}

// call makes a call for n decisions, of which the last failed ones do not come
// back.
func (b *logBench) call(n, failed int, status Status) {
	report, err := b.breaker.Enter()
	if err != nil {
		return
	}
	if failed == n {
		report(errAway)
	} else {
		report(nil)
	}
	b.breaker.Count(n-failed, Answered, nil)
	b.breaker.Count(failed, status, errAway)
}

// calls makes calls for a while, one every tenth of a second.
func (b *logBench) calls(during time.Duration, n, failed int, status Status) {
	for began := time.Now(); time.Since(began) < during; time.Sleep(100 * time.Millisecond) {
		b.call(n, failed, status)
	}
}

// logged checks how many lines of each kind there are.
func (b *logBench) logged(away, part, back int, rule string) {
	b.Helper()
	synctest.Wait() // for lines that timers write
	text := b.text.String()
	for code, want := range map[string]int{"RL712": away, "RL717": part, "RL713": back} {
		assert.Equal(b, want, strings.Count(text, "code="+code), "%s: lines %s in\n%s", rule, code, text)
	}
}

func TestOutageIsLoggedWithItsEnd(t *testing.T) {
	onLogBench(t, "", func(b *logBench) {
		b.calls(time.Second, 10, 0, Answered)
		b.call(10, 10, Unanswered)
		b.calls(3*time.Second, 10, 0, Answered)
		b.logged(0, 0, 0, "one failed call is no outage")
		b.calls(time.Second, 10, 10, Unanswered)
		b.logged(1, 0, 0, "the breaker opens")
		b.calls(10*time.Second, 10, 10, Unanswered)
		b.logged(1, 0, 0, "once an outage")
		require.Contains(b, b.text.String(), "error=away")
		b.calls(900*time.Millisecond, 10, 0, Answered)
		b.logged(1, 0, 0, "Redis is not back before all decisions came back for a second")
		b.calls(3*time.Second, 10, 0, Answered)
		b.logged(1, 0, 1, "then it is")
		b.calls(10*time.Second, 10, 10, Unanswered)
		b.logged(2, 0, 1, "the next outage")
	})
}

// The end needs no more decisions: the last one was made by the store, and a
// second later the outage is over.
func TestOutageEndsWithoutAnotherDecision(t *testing.T) {
	onLogBench(t, "", func(b *logBench) {
		b.calls(time.Second, 1, 1, Unanswered)
		b.logged(1, 0, 0, "the breaker opens")
		time.Sleep(time.Hour)
		b.logged(1, 0, 0, "nobody knows whether the store is back")
		b.call(1, 0, Answered)
		time.Sleep(900 * time.Millisecond)
		b.logged(1, 0, 0, "not before a second has passed")
		time.Sleep(200 * time.Millisecond)
		b.logged(1, 0, 1, "one decision has shown that it is, and none has failed since")
		b.call(1, 0, Answered)
		time.Sleep(time.Hour)
		b.logged(1, 0, 1, "once")
	})
}

// A share of decisions may fail for ever without opening the breaker.
func TestShareOfFailuresIsLoggedWithItsCauses(t *testing.T) {
	for status, attribute := range map[Status]string{Waited: "waited_to_be_sent=", Unanswered: "no_answer=", Refused: "refused="} {
		onLogBench(t, "", func(b *logBench) {
			b.calls(time.Second, 100, 0, Answered)
			b.calls(3*time.Second, 100, 31, status)
			b.logged(0, 1, 0, "a share fails")
			assert.Contains(b, b.text.String(), "fallback_percent=31 ")
			for _, other := range []string{"waited_to_be_sent=", "no_answer=", "refused="} {
				assert.Equal(b, other != attribute, strings.Contains(b.text.String(), other+"0 "), "%s is the cause, not %s", attribute, other)
			}
			b.calls(30*time.Second, 100, 31, status)
			b.logged(0, 1, 0, "at most once a minute")
			b.calls(time.Minute, 100, 31, status)
			b.logged(0, 2, 0, "a minute later")
			b.calls(3*time.Second, 100, 0, Answered)
			b.logged(0, 2, 1, "all decisions came back")
		})
	}
}

func TestRedisIsNotBackWhileAShareFails(t *testing.T) {
	onLogBench(t, "", func(b *logBench) {
		b.calls(2*time.Second, 100, 100, Unanswered)
		b.calls(10*time.Second, 100, 50, Waited)
		b.logged(1, 1, 0, "half of the decisions fail")
		b.calls(3*time.Second, 100, 0, Answered)
		b.logged(1, 1, 1, "none fails")
	})
}

func TestFewFailuresAreNotLogged(t *testing.T) {
	onLogBench(t, "", func(b *logBench) {
		b.calls(time.Minute, 1000, 5, Unanswered)
		b.logged(0, 0, 0, "half a percent")
	})
}

func TestLinesOfOneOfSeveralServersNameIt(t *testing.T) {
	onLogBench(t, "n1:6379", func(b *logBench) {
		b.calls(2*time.Second, 10, 10, Unanswered)
		b.breaker.Retire()
		b.logged(1, 0, 1, "the keys of a server that is not asked any more are elsewhere")
		assert.Equal(b, 2, strings.Count(b.text.String(), "server=n1:6379"))
	})
}

// A server that nobody asks any more must not count as away for ever.
func TestRetiredBreakerDoesNotCount(t *testing.T) {
	onLogBench(t, "n1:6379", func(b *logBench) {
		b.calls(2*time.Second, 10, 10, Unanswered)
		b.breaker.Retire()
		away := b.group.Away()
		require.Positive(b, away)
		b.calls(10*time.Second, 10, 10, Unanswered)
		b.calls(10*time.Second, 10, 0, Answered)
		assert.Equal(b, away, b.group.Away(), "whatever a late call reports")
	})
}

// The time away is that of the store, not the sum of its servers' times.
func TestServersAwayTogetherCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Group{Describe: func(error) string { return "" }}
		var all []*Breaker
		for range 3 {
			all = append(all, g.New(func() string { return "n" }, 1, time.Minute, func() *slog.Logger { return slog.New(slog.DiscardHandler) }))
		}
		for _, b := range all {
			b.Fail(time.Now(), errAway)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		for _, b := range all {
			report, err := b.Enter()
			require.NoError(t, err)
			report(nil)
			time.Sleep(time.Second)
		}
		assert.Equal(t, time.Hour+5*time.Second, g.Away(), "from the first that opened to the last that closed")
		assert.EqualValues(t, 3, g.Opened())
	})
}
