package docs_test

import (
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

// Each refill mode is in all lists of modes that nothing else makes: in those
// of documents, of words, and of the generators of limits, so that the scripts
// and stores decide under it.
func TestEveryModeIsInAllLists(t *testing.T) {
	for mode := core.Continuous; !strings.Contains(mode.String(), "("); mode++ {
		if mode == core.Concurrent {
			continue // it refills nothing
		}
		text, name := strings.ToLower(mode.String()), "core."+mode.String()
		assert.Regexp(t, `[|[]`+text, string(read(t, "limits.md")), "the form of a limit lacks %s", mode)
		for file, shows := range map[string]string{
			"limits.md":                          name,
			"how-it-works.md":                    "**" + mode.String() + "**",
			"../core/limit_text.go":              `"` + text + `"`,
			"../internal/limitdraw/limit.go":     name,
			"../examples/demo/settings.go":       name,
			"../core/storetest/window.go":        name,
			"../core/storetest/atomic.go":        name,
			"../internal/oracle/history_test.go": name,
		} {
			assert.True(t, strings.Contains(string(read(t, file)), shows), "%s lists the modes, and lacks %s", file, shows)
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
			if style != core.HeadersNone || !strings.Contains(file, "_bench_") { // None writes nothing
				assert.True(t, strings.Contains(string(read(t, file)), shows), "%s lists the styles, and lacks %s", file, style)
			}
		}
	}
}

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
		assert.Regexp(t, `\b`+strconv.Itoa(sent.Len())+` bytes and [\d.]+ µs (?:in|as) `+name+`\b`, page, "the bytes that the fields take")
		if style == core.HeadersDefault {
			continue // its fields are those of two styles
		}
		row := strings.ToLower(regexp.MustCompile(`(?m)^\| ` + name + ` \| .* \|$`).FindString(page))
		assert.Equal(t, len(header), strings.Count(row, ": "), "the fields of %s: %v", name, header)
		for field := range header {
			assert.Contains(t, row, strings.ToLower("`"+field+": "+header.Get(field)+"`"), name)
			assert.Contains(t, names, strings.ToLower(field), "the fields that CORS exposes")
		}
	}
}
