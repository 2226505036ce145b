package logline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core/internal/logline"
)

func TestPaceAdmitsOneInEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p logline.Pace
		logged := 0
		for range 100 { // 3 seconds, both ends included
			if p.Note(time.Second) {
				logged++
			}
			time.Sleep(30 * time.Millisecond)
		}
		assert.Equal(t, 3, logged, "one at the start of each second")
		assert.EqualValues(t, 100, p.Count(), "all are counted")
	})
}

func TestKeysOfOneSecretDiffer(t *testing.T) {
	secret := make([]byte, logline.MinSecret)
	assert.Len(t, logline.Key(secret, "a"), 12)
	assert.NotEqual(t, logline.Key(secret, "a"), logline.Key(secret, "b"))
	assert.NotEqual(t, logline.Key(secret, "a"), logline.Key(nil, "a"), "the process has a secret of its own")
}
