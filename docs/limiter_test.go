package docs_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// What limiter.md says that a second admits is what Limit.MaxIn says of its
// limit.
func TestASecondOfTheLimiterPageAdmitsWhatItSays(t *testing.T) {
	text, err := os.ReadFile("limiter.md")
	require.NoError(t, err)
	require.Contains(t, string(text), "core.PerSecond(10)", "premise: the page's limit")
	l := core.PerSecond(10)
	assert.Contains(t, string(text), fmt.Sprintf("one second sees at most %d mails", l.MaxIn(time.Second)))
	assert.Contains(t, string(text), fmt.Sprintf("With `WithBurst(1)` it is %d", l.WithBurst(1).MaxIn(time.Second)))
}
