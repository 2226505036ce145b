package core

import (
	"sync"
	"time"
)

// inUse is what observers count of the slots of a decision, until they are released or MaxHold is over. They don't
// count those of a nil one.
type inUse struct {
	mu      sync.Mutex // guards all below; held while observers are called, so that they see changes in their order
	taken   int64      // slots of the decision; 0: they are released
	counted int64      // of these, what observers count
	end     time.Time  // when MaxHold is over
	timer   *time.Timer
	change  func(by int64) // calls the observers
}

// take notes that observers count n more slots, which are held for so long.
func (u *inUse) take(n int64, hold time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken, u.counted = u.taken+n, u.counted+n
	u.extend(hold)
}

// hold notes that the slots are held for so long from now. They may have been lost before.
func (u *inUse) hold(hold time.Duration) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken > 0 {
		u.count(u.taken)
		u.extend(hold)
	}
}

// lose notes that the slots are not in use. A Hold may take them again, unless they were released.
func (u *inUse) lose(released bool) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.taken == 0 {
		return
	}
	u.timer.Stop()
	u.count(0)
	if released {
		u.taken = 0
	}
}

// extend has observers count the slots until hold is over. u.mu is held.
func (u *inUse) extend(hold time.Duration) {
	u.end = time.Now().Add(hold)
	if u.timer != nil {
		u.timer.Reset(hold)
		return
	}
	u.timer = time.AfterFunc(hold, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if !time.Now().Before(u.end) { // else a Hold has come in between
			u.count(0)
		}
	})
}

// count has observers count n slots. u.mu is held.
func (u *inUse) count(n int64) {
	if by := n - u.counted; by != 0 {
		u.counted = n
		u.change(by)
	}
}
