package docs_test

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
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
	for style := range core.HeaderStyle(255) {
		name, one := strings.CutPrefix(style.String(), "Headers")
		if !one || style == core.HeadersNone || strings.Contains(name, "|") {
			continue
		}
		if style == core.HeadersDefault {
			name = "the default style"
		}
		limiter := core.Must(core.NewLimiter(store, core.Policy{Name: "api", Limits: []core.Limit{core.PerSecond(10).WithBurst(20)}, Headers: style}))
		res, err := limiter.AllowN(t.Context(), name, 13)
		require.NoError(t, err)
		header := http.Header{}
		res.WriteHeaders(header)

		var sent strings.Builder
		require.NoError(t, header.Write(&sent))
		shown := regexp.MustCompile(`\b(\d+) bytes and [\d.]+ µs (?:in|as) ` + name + `\b`).FindStringSubmatch(page)
		require.NotNil(t, shown, "headers.md says how many bytes and µs the fields of %s take", name)
		assert.Equal(t, strconv.Itoa(sent.Len()), shown[1], "the bytes that the fields of %s take", name)
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

// Each style is in all lists of styles that nothing else makes.
func TestEveryStyleIsInAllLists(t *testing.T) {
	for style := core.HeadersLegacy; !strings.Contains(style.String(), "("); style <<= 1 {
		text := strings.ToLower(strings.TrimPrefix(style.String(), "Headers"))
		for file, shows := range map[string]string{
			"limits.md":                        text,
			"../core/policyfile/policyfile.go": text,
			"../examples/demo/settings.go":     "core." + style.String(),
			"../examples/demo/code.go":         "core." + style.String(),
			"../examples/demo/page/yours.js":   text + ": ",
			"../core/headers_test.go":          "core." + style.String(),
			"../core/headers_bench_test.go":    "core." + style.String(),
		} {
			if style == core.HeadersNone && strings.Contains(file, "_bench_") {
				continue // it writes nothing
			}
			assert.True(t, bytes.Contains(read(t, file), []byte(shows)), "%s lists the styles, and lacks %s", file, style)
		}
	}
}
