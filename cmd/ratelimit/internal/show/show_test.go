package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

func TestNumbersAndTimes(t *testing.T) {
	for want, got := range map[string]string{
		"0": show.Count(0), "999": show.Count(999), "1,000": show.Count(1000), "-1,234,567": show.Count(-1234567),
		"1 line": show.Some(1, "line"), "0 lines": show.Some(0, "line"),
		"0 %": show.Percent(0, 5), "100 %": show.Percent(5, 5), "33.3 %": show.Percent(1, 3), "0.01 %": show.Percent(1, 10_000),
		"< 0.001 %": show.Percent(1, 1_000_000_000), "99.999 %": show.Percent(99_999, 100_000), "> 99.999 %": show.Percent(999_999_999, 1_000_000_000),
		"2 h 14 min": show.Duration(2*time.Hour + 14*time.Minute + 59*time.Second), "1 d": show.Duration(24*time.Hour + 59*time.Minute), "1 s": show.Duration(1999 * time.Millisecond),
		"300 ms": show.Duration(300 * time.Millisecond), "0 s": show.Duration(0), "5 µs": show.Duration(5 * time.Microsecond),
	} {
		assert.Equal(t, want, got)
	}
}

// A terminal gets printable characters alone.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"ip:192.0.2.1": "ip:192.0.2.1", "a b": "a b", "": `""`, " a": `" a"`, "\x1b[2J": `"\x1b[2J"`, "é": "é", "\u202eabc": `"\u202eabc"`, "\xff": `"\xff"`,
		strings.Repeat("é", 100): strings.Repeat("é", 48) + "…", "a" + strings.Repeat("é", 100): "a" + strings.Repeat("é", 47) + "…",
	} {
		assert.Equal(t, want, show.Text(text))
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", `a "b" 'c' \d`: `a "b" 'c' \d`, "é\t漢 🙂": "é\t漢 🙂", "\x1b[31m\x00\n": `\x1b[31m\x00\n`, "a\u202e\u200b\u2028": `a\u202e\u200b\u2028`, "\xff": "\ufffd",
	} {
		assert.Equal(t, want, show.Visible(text))
	}
}
