package quantity_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "100": 100, "-5": -5, "0.5": 0.5, "1_000": 1000, "12_345_678.5": 12345678.5, "1000.125": 1000.125, "0.125": 0.125, "1.5000": 1.5, "1.50": 1.5, "1e6": 1e6, "1E+3": 1000, "2.5e-3": 0.0025, "0e999": 0} {
		got, reason := quantity.ParseNumber(text)
		require.Empty(t, reason, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                       "must be a number such as",
		"ten":                    "must be a number such as",
		"+1":                     "must be a number such as",
		".5":                     "must be a number such as",
		"1.":                     "must be a number such as",
		"010":                    "must be a number such as",
		"0_1":                    "must be a number such as",
		"1__0":                   "a group of three digits",
		"1_0_0":                  "a group of three digits",
		"1000_000":               "a group of three digits",
		"1_0000":                 "a group of three digits",
		"1.000":                  "write 1000 or 1",
		"-1.500":                 "write -1500 or -1.5",
		"33.333":                 "write 33333 or 33.3330",
		"1_":                     "must be a number such as",
		"1e":                     "must be a number such as",
		"0x10":                   "must be a number such as",
		"inf":                    "must be a number such as",
		"1,000":                  "without commas",
		"1e999":                  "too large",
		"1e-999":                 "too small",
		"9007199254740993":       "more digits than can be kept",
		"0.10000000000000000001": "more digits than can be kept",
		strings.Repeat("1", 65):  "at most 64 digits",
	} {
		_, reason := quantity.ParseNumber(text)
		require.Contains(t, reason, want, "%q", text)
	}
}

func TestEveryNumberSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }).Draw(t, "number")
		got, reason := quantity.ParseNumber(quantity.FormatNumber(f))
		if reason != "" || got != f {
			t.Fatalf("ParseNumber must read what FormatNumber wrote: %v: %v %s", f, got, reason)
		}
	})
}

func TestParseTokens(t *testing.T) {
	n, reason := quantity.ParseTokens("1e3")
	require.Empty(t, reason)
	require.EqualValues(t, 1000, n)
	_, reason = quantity.ParseTokens("1.5")
	require.Equal(t, "must be a whole number of tokens", reason)
	_, reason = quantity.ParseTokens("1e15")
	require.Equal(t, "must be from 1 to 999999999999999 tokens", reason)
	_, reason = quantity.ParseTokens("x")
	require.Contains(t, reason, "must be a whole number such as 100 or 1_000")
}

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, "0.25": 0.25, "1e-3": 0.001} {
		got, reason := quantity.ParseShare(text)
		require.Empty(t, reason, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{"25%": "must be a number such as 0.25 or 1", "1/4": "must be a number such as 0.25 or 1", "": "must be a number such as 0.25 or 1",
		"0": "must be above 0 and at most 1", "-1": "must be above 0 and at most 1", "1.1": "must be above 0 and at most 1", "0,5": "must be written without commas: 1000 or 1_000, and 0.5 with a point"} {
		_, reason := quantity.ParseShare(text)
		require.Equal(t, want, reason, text)
	}
}

func TestImpliedCapacity(t *testing.T) {
	for rate, want := range map[float64]int64{5: 5, 2.5: 3, 0.5: 1, 0: 1, -1: 1, 1e300: quantity.MaxTokens + 1} {
		require.Equal(t, want, quantity.ImpliedCapacity(rate), "%g", rate)
	}
}

func TestParseInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{"s": time.Second, "30s": 30 * time.Second, "5 min": 5 * time.Minute, "1h30m": 90 * time.Minute,
		"1.5µs": 1500, "2 Weeks": 14 * 24 * time.Hour, "day": 24 * time.Hour, " 1 h 30 min": 90 * time.Minute} {
		got, reason := quantity.ParseInterval(text)
		require.Empty(t, reason, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{"": quantity.WantInterval, "moon": quantity.WantInterval, "5": quantity.WantInterval, "5 min burst": quantity.WantInterval,
		"1h1h": "must name each unit once, the largest first, such as 1h30m", "30m1h": "must name each unit once, the largest first, such as 1h30m",
		"h 30m": "must have a count in front of each unit if there are several, such as 1h30m", "5M": "can be read as minutes or months: write min or month",
		"1.500s": "can be read as two numbers: write 1500 or 1.5", "1_0s": quantity.WantInterval, "m\u0130n": quantity.WantInterval, "wee\u212a": quantity.WantInterval,
		"0.1ns": "must be whole nanoseconds", "9999999999999 weeks": "must be at most 100 years", strings.Repeat("1", 1025) + "s": quantity.WantInterval} {
		_, reason := quantity.ParseInterval(text)
		require.Equal(t, want, reason, "%.40q", text)
	}
}

func TestCutInterval(t *testing.T) {
	d, read, rest, reason := quantity.CutInterval(" 5 min  burst 20")
	require.Empty(t, reason)
	require.Equal(t, 5*time.Minute, d)
	require.Equal(t, "5 min", read)
	require.Equal(t, "burst 20", rest)
	for _, behind := range []string{"20", "20,", "5/h"} {
		_, read, rest, reason = quantity.CutInterval("min " + behind)
		require.Empty(t, reason)
		require.Equal(t, "min", read)
		require.Equal(t, behind, rest, "a number without a unit is no part of the interval")
	}
	_, read, rest, reason = quantity.CutInterval("moon burst 20")
	require.Equal(t, quantity.WantInterval, reason)
	require.Equal(t, "moon", read, "what can't be read is cut off too")
	require.Equal(t, "burst 20", rest)
}

func TestEveryIntervalSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "interval"))
		for _, text := range []string{quantity.FormatInterval(d), d.String()} {
			got, reason := quantity.ParseInterval(text)
			if reason != "" || got != d {
				t.Fatalf("ParseInterval must read %s as %v: %v %s", text, d, got, reason)
			}
		}
	})
}

// What half of the world reads as another number is refused, and what is
// written is not of this kind.
func TestNumbersHaveOneReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, fraction := rapid.IntRange(1, 999).Draw(t, "whole"), rapid.IntRange(0, 999).Draw(t, "fraction")
		text := fmt.Sprintf("%d.%03d", whole, fraction)
		_, reason := quantity.ParseNumber(text)
		if want := fmt.Sprintf("write %d%03d or ", whole, fraction); !strings.Contains(reason, want) {
			t.Fatalf("%s can be read as two numbers, and the reason is %q, without %q", text, reason, want)
		}
		other := reason[strings.LastIndexByte(reason, ' ')+1:]
		want, _ := strconv.ParseFloat(text, 64)
		if f, reason := quantity.ParseNumber(other); reason != "" || f != want {
			t.Fatalf("what a reason says to write for %s must be that number: %s: %v %s", text, other, f, reason)
		}
	})
}
