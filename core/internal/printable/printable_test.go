package printable_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		`a "quoted" \ naïve 世界`: `a "quoted" \ naïve 世界`,
		"a\nb\t\r\x00\x1b[31m":  `a\nb\t\r\x00\x1b[31m`,
		"\u202eabc\u200b\u0085": `\u202eabc\u200b\u0085`,
		"a\xff\"\ufffd":         `a\xff"` + "\ufffd",
		"\x7f":                  `\x7f`,
	} {
		require.Equal(t, want, printable.Text(text), "%q", text)
	}
}

func TestNothingElseIsChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		shown := printable.Text(text)
		if !utf8.ValidString(shown) || strings.IndexFunc(shown, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
			t.Fatalf("every character of %q can be printed: %q", text, shown)
		}
		if clipped := printable.Clip(text, 5); len(clipped) > 5+len("…") || !strings.HasPrefix(text, strings.TrimSuffix(clipped, "…")) {
			t.Fatalf("at most 5 bytes of %q are left: %q", text, clipped)
		}
	})
}
