package quantity_test

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

var numberPattern = regexp.MustCompile(`^-?(0|[1-9]\d*|[1-9]\d{0,2}(_\d{3})+)(\.\d+)?([eE][+-]?\d+)?$`)

func TestIsNumberIsAPattern(t *testing.T) {
	part := rapid.SampledFrom([]string{"-", "+", "0", "1", "12", "123", "9999", "_", "_000", ".", "e", "E", "x", " "})
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, p := range rapid.SliceOfN(part, 0, 7).Draw(t, "parts") {
			text += p
		}
		if got, want := quantity.IsNumber(text), numberPattern.MatchString(text); got != want {
			t.Fatalf("IsNumber(%q) is %v, and the pattern says %v", text, got, want)
		}
	})
}
