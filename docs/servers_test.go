package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is said of servers is said in the same words everywhere.
func TestServersAreNamedInOneSentence(t *testing.T) {
	const sentence = "The store on Redis works with Redis 6.0 or newer, Valkey and redict"
	for _, page := range []string{"../README.md", "operations.md", "servers.md", "../core/redisstore/store.go"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		text = []byte(strings.Join(strings.Fields(strings.ReplaceAll(string(text), "\n// ", " ")), " "))
		assert.Contains(t, string(text), sentence, page)
	}
}
