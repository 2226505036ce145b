package core_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
)

var didYouMean = regexp.MustCompile(`"([^"]*)" (?:is not understood|has no slash between a rate and an interval) \(did you mean (.*?)\?\)`)

// Who writes what a hint says must not get the next mistake.
func TestHintsOfALimitAreLimits(t *testing.T) {
	wantHints(t, map[string]string{
		"10/s burst=20":             "10/s burst 20",
		"10/s burst:20":             "10/s burst 20",
		"10/s burst20":              "10/s burst 20",
		"10/s brust=1_000":          "10/s burst 1000",
		"10/s Bursts=20":            "10/s burst 20",
		"10/s brust 20":             "10/s burst 20",
		"10/s burst: 20":            "10/s burst 20",
		"10/s 20":                   "10/s burst 20",
		"10/s bur 20":               "10/s burst 20",
		"10/min cont":               "10/min",
		"10/min ste":                "10/min stepped",
		"10/min st":                 "",
		"10/s burs":                 "", // burst needs a value
		"10/s nam":                  "",
		"10/s max=20":               "",
		"10/s name=x":               "10/s name x",
		"10/day from=2025-10-31":    "10/day from 2025-10-31",
		"10/day form 2025-10-31":    "10/day from 2025-10-31",
		"10/min align":              "10/min aligned",
		"10/min steped":             "10/min stepped",
		"10/min aligned=true":       "10/min aligned",
		"10 per second":             "10/s",
		"10rps":                     "10/s",
		"10 tokens per min burst=5": "",
	})
}

func TestMessageOfALimitBeginsWithTheMistake(t *testing.T) {
	for text, want := range map[string]string{
		"10/s burst 20k": `ratelimit: limit "10/s burst 20k": Limit.Capacity: "20k" must be`,
		"10":             `ratelimit: limit "10": Limit: "10" has no slash`,
	} {
		_, err := core.ParseLimit(text)
		require.Error(t, err)
		assert.True(t, strings.HasPrefix(err.Error(), want), "%q: %v", text, err)
		assert.Contains(t, err.Error(), "; want RATE [UNIT]/INTERVAL", "the form follows")
	}
}

// A factor is for overrides alone, so its hint says that.
func TestHintsOfFactors(t *testing.T) {
	for text, want := range map[string]string{
		"x 10": "x10", "10x": "x10", "10 X": "x10", "*1.5": "x1.5", "10 times": "x10", "× 2": "x2", "x 10 name Minute": "x10 name Minute", "10": "", "x": "", "x-1": "", "ten x": "", "x 1,5": "",
	} {
		_, err := core.ParseLimit(text)
		require.ErrorContains(t, err, "has no slash", text)
		if want == "" {
			assert.NotContains(t, err.Error(), "in an override", text)
			continue
		}
		assert.ErrorContains(t, err, "(in an override, "+want+" multiplies a limit)", text)
		_, err = core.ParseLimit(want)
		assert.NoError(t, err)
	}
}

func TestMistakesOfALimitSayWhatFitsItsField(t *testing.T) {
	for text, want := range map[string]string{
		"10/s burst":     `Limit.Capacity: "" must be a whole number such as 100 or 1_000 (RL102)`,
		"10/s burst 20k": `Limit.Capacity: "20k" must be a whole number such as 100 or 1_000 (RL102)`,
		"10/ns":          `Limit.RefillInterval: "ns" must be at least 1µs (RL104)`,
		"10/0.5us":       `Limit.RefillInterval: "0.5us" must be at least 1µs (RL104)`,
		"1/100 years":    `Limit.RefillInterval: "100 years" must be at most 36500 days (RL104)`,
	} {
		_, err := core.ParseLimit(text)
		require.ErrorContains(t, err, want)
	}
}

// wantHints checks what texts become by the hint in their mistake; "": there is
// no hint.
func wantHints(t *testing.T, texts map[string]string) {
	t.Helper()
	for text, want := range texts {
		_, err := core.ParseLimit(text)
		require.Error(t, err, text)
		hint := didYouMean.FindStringSubmatch(err.Error())
		if want == "" {
			assert.Nil(t, hint, "%q: no hint is better than a wrong one", text)
			continue
		}
		if !assert.NotNil(t, hint, "%q has no hint: %v", text, err) {
			continue
		}
		corrected := strings.Replace(text, hint[1], hint[2], 1)
		l, err := core.ParseLimit(corrected)
		if assert.NoError(t, err, "%q became %q by its hint", text, corrected) {
			assert.Equal(t, want, l.String(), "%q became %q by its hint", text, corrected)
		}
	}
}
