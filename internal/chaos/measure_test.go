package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// target is a Redis to which something happens while callers ask.
type target struct {
	client redis.UniversalClient
	shared []string // keys that callers share; nil: any

	// fault begins a fault, and returns when it has ended.
	fault func(*measurement)
	// away says that the fault began before the first decision.
	away bool
	// spared reports whether the server of a key in Redis stays healthy.
	// Without it, none does.
	spared func(redisKey string) bool
	// lost says that the servers of keys that are not spared don't come back.
	lost bool
	// successor says that a replica takes over. It may lack the last writes.
	successor bool
	// context returns that of a decision. Without it, contexts don't end.
	context func() (context.Context, context.CancelFunc)
}

// Buckets don't refill while a test runs.
const (
	measuredPrefix   = "moving:"
	measuredPolicy   = "topology"
	measuredCapacity = 1_000_000
)

func measuredKey(key string) string { return measuredPrefix + measuredPolicy + ":" + key }

// measuredSlots are the slots of a key.
const measuredSlots = 8

func measuredLimiters(s *redisstore.Store) (tokens, slots *core.Limiter) {
	limiter := func(name string, limit core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(s, core.Policy{Name: name, OnFailure: core.FailClosed, Limits: []core.Limit{limit}}))
	}
	return limiter(measuredPolicy, core.PerDay(measuredCapacity).WithMode(core.Stepped)),
		limiter("slots", core.InFlight(measuredSlots).WithMaxHold(time.Hour))
}

// tally is what became of the decisions of a key. Each costs one token, which
// some give back.
type tally struct{ granted, failed, undone, maybeUndone int64 }

// measurement counts what becomes of decisions.
type measurement struct {
	*testing.T
	target  target
	limiter *core.Limiter
	slots   *core.Limiter
	busy    *core.Limiter // of busySlots
	lines   warnings

	mu        sync.Mutex // guards everything below
	keys      map[string]tally
	forgotten int // how often Redis has lost buckets
	inUse     int // slots of busySlots
	mostInUse int
	decisions int64
	failed    int64
	beside    int64 // of these, of keys whose server was healthy
	slowest   time.Duration
	failures  map[string]int64 // beside, by their errors
	faulty    bool             // from the fault's begin until decisions succeed again
	ended     time.Time        // when the fault ended; zero: it did not yet
	inRow     int              // decisions that succeeded since then, without one that failed
	healed    time.Duration
}

// hundred decisions in a row that succeed are the end of an outage.
const hundred = 100

// ask makes a decision. One whose own context ended is no failure.
func (m *measurement) ask(ctx context.Context, key string) {
	m.mu.Lock()
	faulty, forgotten := m.faulty, m.forgotten
	m.mu.Unlock()
	began := time.Now()
	res, err := m.allow(ctx, m.limiter, key)
	took := time.Since(began)
	spared := m.target.spared != nil && m.target.spared(measuredKey(key))
	undoes := res.Allowed && !m.target.successor && rand.IntN(4) == 0 // a successor may lack that a token came back
	var failed error
	if undoes {
		failed = recovered(func() error { return res.Undo(context.Background()) })
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.decisions++
	m.slowest = max(m.slowest, took)
	one := m.keys[key]
	switch {
	case err == nil && res.Allowed:
		one.granted++
		m.success(spared)
	case ctx.Err() != nil:
		one.failed++
	default:
		if !errors.Is(err, core.ErrBreakerOpen) { // else nothing was sent
			one.failed++
		}
		m.failed++
		if m.inRow = 0; spared || !faulty && !m.faulty {
			m.beside++
			m.failures[fmt.Sprint(err)]++
		}
	}
	if undoes || res.Allowed && forgotten != m.forgotten { // Redis may have lost that it was taken
		one.maybeUndone++
	}
	if undoes && failed == nil && forgotten == m.forgotten {
		one.undone++
	}
	m.keys[key] = one
}

// success counts decisions that succeed in a row after the fault. It requires
// that m.mu is held.
func (m *measurement) success(spared bool) {
	if m.ended.IsZero() || !m.faulty || spared && m.target.lost {
		return
	}
	if m.inRow++; m.inRow == hundred {
		m.faulty, m.healed = false, time.Since(m.ended)
	}
}

// allow is Allow. A panic of a hook is its error.
func (m *measurement) allow(ctx context.Context, l *core.Limiter, key string) (res core.Result, err error) {
	err = recovered(func() (err error) {
		res, err = l.Allow(ctx, key)
		return err
	})
	return res, err
}

func recovered(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return call()
}

// busySlots is a key whose slots are taken and released all the time. A call that
// was given up may reach Redis after the end of what it takes. Then the slot comes
// back after MaxHold, so that is short.
const busySlots = "busy"

// useSlot takes a slot for a moment.
func (m *measurement) useSlot(ctx context.Context) {
	res, err := m.allow(ctx, m.busy, busySlots)
	if err != nil || !res.Allowed {
		return
	}
	uses := func(slots int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inUse += slots
		m.mostInUse = max(m.mostInUse, m.inUse)
	}
	uses(1)
	time.Sleep(time.Millisecond)
	uses(-1)
	_ = recovered(func() error { return res.Release(context.Background()) })
}

// heldKeys are keys whose slots are taken before the fault.
var heldKeys = keyNames(5)

// holdSlots takes all slots of heldKeys, and returns what releases them, the
// last ones while a breaker is open.
func (m *measurement) holdSlots() (release func()) {
	var held []core.Result
	for i := range len(heldKeys) * measuredSlots {
		res, err := m.allow(context.Background(), m.slots, heldKeys[i%len(heldKeys)])
		if err == nil && res.Allowed {
			held = append(held, res)
		}
	}
	return func() {
		for i := range held {
			_ = recovered(func() error { return held[i].Release(context.Background()) })
			time.Sleep(lasting() / 2 / time.Duration(len(held)))
		}
	}
}

// slotsComeBack checks that all slots of keys are free again.
func (m *measurement) slotsComeBack(within time.Duration, keys ...string) {
	m.Helper()
	if m.target.successor {
		return // it may lack that they were released
	}
	_, slots := measuredLimiters(redisstore.New(m.target.client, redisstore.WithPrefix(measuredPrefix), patient, asking))
	for _, key := range keys {
		if m.target.lost && !m.target.spared(measuredPrefix+"slots:"+key) {
			continue
		}
		require.Eventually(m, func() bool {
			res, err := slots.Peek(context.Background(), key)
			return err == nil && res.Remaining == measuredSlots
		}, within, tick, "slots that were released in the fault come back")
	}
}

// forget says that Redis has lost the buckets of keys that are not spared: each
// is full again.
func (m *measurement) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgotten++
	for key, one := range m.keys {
		if m.target.spared == nil || !m.target.spared(measuredKey(key)) {
			m.keys[key] = tally{maybeUndone: one.maybeUndone} // an undo may come later
		}
	}
}

// until waits until done.
func (m *measurement) until(done func() bool, rule string) {
	m.Helper()
	require.Eventually(m, done, wait, tick, rule)
}

// measuredCallers ask at once: half for keys that they share, and half each time
// for another one.
const measuredCallers = 32

func (m *measurement) load(stop <-chan struct{}, caller int) {
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	pause := time.Millisecond
	if *reportFile == "" { // other faults are measured at the same time
		pause = 5 * time.Millisecond
	}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(pause):
		}
		key := fmt.Sprint("cold-", caller, "-", n)
		if caller%2 == 0 {
			key = m.target.shared[caller/2%len(m.target.shared)]
		}
		if m.target.context != nil {
			ctx, cancel = m.target.context()
		}
		m.ask(ctx, key)
		if caller%2 == 0 {
			m.useSlot(ctx)
		}
		cancel()
	}
}

// measure has callers ask while the fault begins and ends.
func measure(t *testing.T, name string, s target) {
	t.Helper()
	if s.shared == nil {
		s.shared = keyNames(8)
	}
	m := &measurement{T: t, target: s, keys: map[string]tally{}, failures: map[string]int64{}, faulty: s.away}
	m.limiter, m.slots = measuredLimiters(redisstore.New(s.client, redisstore.WithPrefix(measuredPrefix), asking, core.WithLogger(slog.New(&m.lines))))
	m.busy = core.Must(m.slots.WithLimits(core.InFlight(measuredSlots).WithMaxHold(10 * time.Second)))
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for caller := range measuredCallers {
		callers.Go(func() { m.load(stop, caller) })
	}
	release := m.holdSlots()
	time.Sleep(lasting() / 3)
	m.mu.Lock()
	m.faulty = true
	m.mu.Unlock()
	var releasing sync.WaitGroup
	releasing.Go(release)
	s.fault(m)
	releasing.Wait()
	m.mu.Lock()
	m.ended = time.Now()
	m.mu.Unlock()
	if !s.lost {
		m.until(func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return !m.faulty
		}, "Redis decides again")
	}
	m.slotsComeBack(recovery(), heldKeys...)
	time.Sleep(lasting() / 3)
	close(stop)
	callers.Wait()
	m.slotsComeBack(wait, busySlots)
	if m.forgotten == 0 && !s.lost && !s.successor {
		assert.LessOrEqual(t, m.mostInUse, measuredSlots, "no more slots are in use than there are")
	}
	reportFault(m, name)
}

// recovery is how long it may take until all is as before.
func recovery() time.Duration {
	if *reportFile != "" {
		return 2 * time.Second
	}
	return wait
}

// charges compares what Redis says was taken with what was granted and not given
// back. A decision that failed may have taken its token.
func (m *measurement) charges() (over, twice int64) {
	m.Helper()
	l, _ := measuredLimiters(redisstore.New(m.target.client, redisstore.WithPrefix(measuredPrefix), patient, asking))
	keys := make(chan string)
	var sumOver, sumTwice atomic.Int64
	var all sync.WaitGroup
	for range measuredCallers {
		all.Go(func() {
			for key := range keys {
				res, err := l.Peek(context.Background(), key)
				for began := time.Now(); err != nil && time.Since(began) < wait; { // its client may give up soon
					res, err = l.Peek(context.Background(), key)
				}
				if !assert.NoError(m, err, "the key can be read") {
					continue
				}
				used, t := measuredCapacity-res.Remaining, m.keys[key]
				sumOver.Add(max(0, t.granted-t.maybeUndone-used))
				sumTwice.Add(max(0, used-t.granted-t.failed+t.undone))
			}
		})
	}
	for key := range m.keys {
		if !m.target.lost || m.target.spared(measuredKey(key)) {
			keys <- key
		}
	}
	close(keys)
	all.Wait()
	return sumOver.Load(), sumTwice.Load()
}

// reportFault adds a row to the table of faults.
func reportFault(m *measurement, name string) {
	m.Helper()
	over, twice := m.charges()
	healed := fmt.Sprintf("%.2f s", m.healed.Seconds())
	if m.target.lost || m.failed == 0 {
		healed = "–"
	}
	row := fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %s | %d ms | %d |\n", name, m.decisions, over, twice, m.beside, m.failed,
		healed, m.slowest.Milliseconds(), m.lines.count.Load())
	m.Log(row, m.lines.String(), m.failures)
	tables.Lock()
	defer tables.Unlock()
	tables.outages = append(tables.outages, row)
	assert.Zero(m, twice, "tokens that were taken twice")
	if !m.target.successor {
		assert.Zero(m, over, "tokens that were granted and not taken")
	}
	if *reportFile != "" {
		assert.LessOrEqual(m, m.healed, 2*time.Second, "promise: recovery within 2 s")
	}
}

// warnings counts lines at level WARN and above.
type warnings struct {
	count atomic.Int64
	mu    sync.Mutex
	kinds map[string]int // by their messages
}

func (*warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler             { return w }
func (w *warnings) WithGroup(string) slog.Handler                  { return w }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.count.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kinds == nil {
		w.kinds = map[string]int{}
	}
	w.kinds[r.Message]++
	return nil
}

func (w *warnings) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(w.kinds)
}
