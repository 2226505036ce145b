package mcplimit

import (
	"runtime"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSessionsThatHaveEndedAreForgotten(t *testing.T) {
	var ids identities
	count := func() (n int) {
		ids.ids.Range(func(any, any) bool { n++; return true })
		return n
	}
	kept := new(mcp.ServerSession)
	id := ids.id(kept)
	for range 100 {
		assert.NotEqual(t, id, ids.id(new(mcp.ServerSession)), "two sessions have different ids")
	}
	require.Eventually(t, func() bool { runtime.GC(); return count() == 1 }, time.Minute, time.Millisecond, "ids of sessions that are gone are dropped")
	assert.Equal(t, id, ids.id(kept), "a session keeps its id")
	runtime.KeepAlive(kept)
}
