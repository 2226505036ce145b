package show_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"": "", `a "b" 'c' \d`: `a "b" 'c' \d`, "é\t漢 🙂": "é\t漢 🙂", "\x1b[31m\x00\n": `\x1b[31m\x00\n`, "a\u202e\u200b\u2028": `a\u202e\u200b\u2028`, "\xff": "\ufffd",
	} {
		assert.Equal(t, want, show.Visible(text))
	}
}
