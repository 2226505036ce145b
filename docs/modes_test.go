package docs_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Each refill mode is in all lists of modes that nothing else makes: in those
// of documents, of words, and of the generators of limits, so that the scripts
// and stores decide under it.
func TestEveryModeIsInAllLists(t *testing.T) {
	for mode := core.Continuous; !strings.Contains(mode.String(), "("); mode++ {
		if mode == core.Concurrent {
			continue // it refills nothing
		}
		text, name := strings.ToLower(mode.String()), "core."+mode.String()
		for file, shows := range map[string]string{
			"policies.md":                        text,
			"choosing-limits.md":                 name,
			"how-it-works.md":                    "**" + mode.String() + "**",
			"../core/limit_text.go":              `"` + text + `"`,
			"../internal/limitdraw/limit.go":     name,
			"../examples/demo/settings.go":       name,
			"../core/storetest/window.go":        name,
			"../core/storetest/atomic.go":        name,
			"../internal/oracle/history_test.go": name,
		} {
			assert.True(t, bytes.Contains(read(t, file), []byte(shows)), "%s lists the modes, and lacks %s", file, shows)
		}
	}
}
