package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestPaceAdmitsOneInEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		logged := 0
		for range 100 { // 3 seconds, both ends included
			if p.Note(time.Second) {
				logged++
			}
			time.Sleep(30 * time.Millisecond)
		}
		assert.Equal(t, 3, logged, "one at the start of each second")
		assert.EqualValues(t, 100, p.count.Load(), "all are counted")
	})
}
