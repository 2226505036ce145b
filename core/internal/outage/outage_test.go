package outage_test

import (
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/outage"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/core/storestats"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

var errAway = errors.New("away")

const pause = 500 * time.Millisecond

// bench is a breaker that opens after two failures.
type bench struct {
	*testing.T
	*outage.Breaker

	lines logtest.Buffer

	mu   sync.Mutex // guards all below
	away bool       // nothing can be sent
	sent [][]string // keys of the requests that Send got
}

func onBreaker(t *testing.T, several bool, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		logger := slog.New(slog.NewTextHandler(&b.lines, nil))
		b.Breaker = outage.New(outage.Settings{
			Failures: 2, Pause: pause, Several: several, Totals: &outage.Totals{},
			Name: "it", Describe: func(error) string { return "it does not answer" }, Server: "a:1",
			Logger: func() *slog.Logger { return logger },
			Send: func(list []outage.Returned) error {
				var keys []string
				for _, r := range list {
					keys = append(keys, r.Key)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				if b.sent = append(b.sent, keys); b.away {
					return errAway
				}
				return nil
			},
		})
		test(b)
		time.Sleep(time.Minute) // until no timer is left
	})
}

// call reports the result of a call that took so long.
func (b *bench) call(took time.Duration, result error) error {
	report, err := b.Enter()
	if err == nil {
		time.Sleep(took)
		report(result)
	}
	return err
}

// goes has the server go away, or come back. It returns what was sent before.
func (b *bench) goes(away bool) (sent [][]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sent, b.sent, b.away = b.sent, nil, away
	return sent
}

// waits waits so long, and until what timers do then is done.
func (b *bench) waits(d time.Duration) {
	time.Sleep(d + time.Millisecond)
	synctest.Wait()
}

func (b *bench) opens() {
	b.Helper()
	require.NoError(b, b.call(1, errAway))
	require.NoError(b, b.call(1, errAway))
	require.True(b, b.Open())
}

func TestFailuresInARowOpenTheBreaker(t *testing.T) {
	onBreaker(t, false, func(b *bench) {
		for _, result := range []error{errAway, nil, errAway, outage.CallerDone{Cause: errAway}} {
			require.NoError(b, b.call(1, result))
		}
		assert.False(b, b.Open(), "a success between them counts, and the end of a caller's context does not")
		require.NoError(b, b.call(1, errAway))
		err := b.call(1, nil)
		require.ErrorIs(b, err, core.ErrBreakerOpen)
		require.ErrorIs(b, err, errAway, "the error says why")
		assert.Equal(b, storestats.BreakerOpen, b.State())
		time.Sleep(pause + 1)
		assert.Equal(b, storestats.BreakerHalfOpen, b.State())
		require.NoError(b, b.call(1, nil), "a trial")
		assert.Equal(b, storestats.BreakerClosed, b.State())
		assert.Equal(b, int64(1), b.Totals.Opened())
		assert.InDelta(b, pause, b.Totals.Away(), float64(time.Millisecond))
	})
}

func TestFailuresAtTheSameTimeCountOnce(t *testing.T) {
	onBreaker(t, false, func(b *bench) {
		var reports []func(error)
		for range 10 {
			report, err := b.Enter()
			require.NoError(b, err)
			reports = append(reports, report)
		}
		time.Sleep(time.Nanosecond)
		for _, report := range reports {
			report(errAway)
		}
		assert.False(b, b.Open())
	})
}

// A server that fails again and again is one outage.
func TestOutageHasALineAtItsBeginningAndAtItsEnd(t *testing.T) {
	onBreaker(t, false, func(b *bench) {
		for range 5 {
			b.opens()
			time.Sleep(pause + 1)
			require.NoError(b, b.call(1, nil))
			time.Sleep(900 * time.Millisecond)
		}
		assert.Equal(b, 1, b.lines.Count("RL712"))
		assert.Zero(b, b.lines.Count("RL713"), "it was not closed for a second")
		time.Sleep(time.Second)
		assert.Equal(b, 1, b.lines.Count("RL713"))
		b.opens()
		assert.Equal(b, 2, b.lines.Count("RL712"), "the next outage")
	})
}

// After a fail-over no call goes to the lost server, and none would end its
// outage.
func TestOutageOfAServerThatNobodyAsksEndsByItself(t *testing.T) {
	for _, several := range []bool{true, false} {
		onBreaker(t, several, func(b *bench) {
			b.opens()
			for range 20 {
				time.Sleep(time.Second)
				_ = b.call(1, errAway)
			}
			assert.Zero(b, b.lines.Count("RL713"), "calls still come")
			time.Sleep(11 * time.Second)
			assert.Equal(b, several, b.lines.Count("RL713") == 1, "unless it is the only server")
			assert.Equal(b, several, b.State() == storestats.BreakerClosed)
		})
	}
}

func returned(key string, lasts time.Duration) outage.Returned {
	set := bucket.NewLimitSet([]bucket.Rate{bucket.NewRate(bucket.Spec{Capacity: 9, RefillRate: 1, RefillInterval: time.Second}, 1)})
	r := store.NewRequest("api", key, bucket.Request{Set: set, Action: bucket.Charge, N: -1})
	r.Until = time.Now().Add(lasts).UnixNano()
	return outage.Returned{Key: key, Request: r}
}

func TestWhatIsKeptIsSentWhenTheServerIsBack(t *testing.T) {
	onBreaker(t, false, func(b *bench) {
		b.opens()
		b.goes(true)
		b.Keep(returned("short", time.Second), returned("long", time.Hour))
		b.waits(10 * time.Second)
		tried := b.goes(false)
		for _, keys := range tried {
			assert.Len(b, keys, 1, "one request tries the server")
		}
		assert.NotEmpty(b, tried, "also if no call does")
		b.waits(2 * pause)
		assert.Equal(b, [][]string{{"long"}, {"long"}}, b.goes(false), "a look, and what still matters")
		assert.False(b, b.Open())
		b.waits(time.Hour)
		assert.Empty(b, b.goes(false), "it is sent once")
	})
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	onBreaker(t, false, func(b *bench) {
		b.opens()
		for i := range 10_100 {
			b.Keep(returned(strconv.Itoa(i), time.Hour))
		}
		b.waits(pause)
		require.NoError(b, b.SendKept())
		sent := b.goes(false)
		assert.Len(b, sent[len(sent)-1], 10_000)
	})
}

// What was sent may have been executed, so nothing else of it is sent again than
// the end of a hold.
func TestWhatIsSentLater(t *testing.T) {
	r := returned("k", time.Hour).Request
	for name, c := range map[string]struct {
		err          error
		unsent, some bool
	}{
		"it was done": {}, "its key can't be read": {err: &store.StateError{}, unsent: true}, "it was not sent": {errAway, true, true}, "it was sent": {err: errAway},
	} {
		_, some := outage.Later(r, c.err, c.unsent)
		assert.Equal(t, c.some, some, name)
	}
}
