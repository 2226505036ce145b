package chaos_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// trail counts up a number on a master, a millisecond at a time. A successor
// has a prefix of the master's writes. So the number that it has tells which
// decisions it has: all that were answered before the number was sent, and none
// that was sent after the next one was answered.
type trail struct {
	key  string
	stop chan struct{}
	once sync.Once
	done sync.WaitGroup

	mu    sync.Mutex // guards marks
	marks []mark
}

// mark is one write of a trail.
type mark struct {
	sent     time.Time
	answered time.Time // zero: the master died before
	refused  bool      // the master did not execute it
}

// leaveTrail writes to the server at addr until that dies or the trail ends.
func leaveTrail(t *testing.T, addr, key string) *trail {
	t.Helper()
	tr := &trail{key: key, stop: make(chan struct{})}
	tr.done.Go(func() { tr.write(addr) })
	t.Cleanup(tr.end)
	return tr
}

func (tr *trail) write(addr string) {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: wait})
	defer client.Close()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for i := 0; ; i++ {
		tr.mu.Lock()
		tr.marks = append(tr.marks, mark{sent: time.Now()}) // the successor may have it, answered or not
		tr.mu.Unlock()
		err := client.Set(context.Background(), tr.key, i, 0).Err()
		var reply redis.Error
		refused := errors.As(err, &reply)
		if err != nil && !refused {
			return
		}
		tr.mu.Lock()
		tr.marks[i].answered, tr.marks[i].refused = time.Now(), refused
		tr.mu.Unlock()
		select {
		case <-tr.stop:
			return
		case <-ticks.C:
		}
	}
}

func (tr *trail) end() {
	tr.once.Do(func() { close(tr.stop) })
	tr.done.Wait()
}

// written returns how many marks were sent.
func (tr *trail) written() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.marks)
}

// refusedSince returns when the master first refused a mark that was sent after
// an instant.
func (tr *trail) refusedSince(from time.Time) (at time.Time, found bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, m := range tr.marks {
		if m.refused && m.sent.After(from) {
			return m.answered, true
		}
	}
	return time.Time{}, false
}
