package docs_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The program on reliability.md prints what the page shows.
func TestTheProgramWithoutRedisPrintsWhatThePageShows(t *testing.T) {
	text, err := os.ReadFile("reliability.md")
	require.NoError(t, err)
	want := regexp.MustCompile("(?ms)^It prints:\n\n```text\n(.*?)^```").FindStringSubmatch(string(text))
	require.NotNil(t, want)
	out, err := command(t, nameOf("reliability.md", 0), "").Output()
	require.NoError(t, err)
	require.Equal(t, want[1], string(out))
}
