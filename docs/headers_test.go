package docs_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

// The fields of each style that headers.md shows are those of a bucket with 7
// of 20 tokens, and the list for CORS has them all.
func TestFieldsOnTheHeadersPage(t *testing.T) {
	page := string(read(t, "headers.md"))
	exposed := regexp.MustCompile(`(?m)^Access-Control-Expose-Headers: (.*)$`).FindStringSubmatch(page)
	require.NotNil(t, exposed)
	names := strings.Split(strings.ToLower(exposed[1]), ", ")
	assert.Contains(t, names, "retry-after")
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }))
	for name, style := range map[string]core.HeaderStyle{"the default style": core.HeadersDefault, "Legacy": core.HeadersLegacy, "Draft8": core.HeadersDraft8, "Draft6": core.HeadersDraft6} {
		limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(20)}, Headers: style}))
		res, err := limiter.AllowN(t.Context(), name, 13)
		require.NoError(t, err)
		header := http.Header{}
		res.WriteHeaders(header)

		var sent strings.Builder
		require.NoError(t, header.Write(&sent))
		assert.Regexp(t, fmt.Sprintf(`\b%d bytes and [\d.]+ µs (in|as) %s\b`, sent.Len(), name), page, "the bytes that the fields of a style take")
		if style == core.HeadersDefault {
			continue // its fields are those of two styles
		}

		row := regexp.MustCompile(`(?m)^\| ` + name + ` \| (.*) \|$`).FindStringSubmatch(page)
		require.NotNil(t, row, name)
		assert.Equal(t, len(header), strings.Count(row[1], ": "), "the fields of %s: %v", name, header)
		for field := range header {
			assert.Contains(t, strings.ToLower(row[1]), strings.ToLower(fmt.Sprintf("`%s: %s`", field, header.Get(field))), name)
			assert.Contains(t, names, strings.ToLower(field), "the fields that CORS exposes")
		}
	}
}
