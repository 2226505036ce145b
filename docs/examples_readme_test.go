package docs_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example on examples/README.md answers six requests with the statuses that
// the page shows.
func TestTheGinExampleAnswersAsItsPageShows(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	want := regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindStringSubmatch(string(text))
	require.NotNil(t, want)
	addr := freeAddr(t)
	serve(t, command(t, "example_gin", "", "-addr", addr), addr)

	var got strings.Builder
	for range strings.Count(want[1], "\n") {
		resp, err := http.Get("http://" + addr + "/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		fmt.Fprintln(&got, resp.StatusCode)
	}
	require.Equal(t, want[1], got.String())
}

// Each program in examples is on their page, and each link leads to a file.
func TestExamplesPageNamesEachExample(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(text), -1) {
		require.FileExists(t, filepath.Join("..", "examples", link[1]))
	}
	examples, err := os.ReadDir("../examples")
	require.NoError(t, err)
	for _, e := range examples {
		if e.IsDir() {
			require.Contains(t, string(text), "| ["+e.Name()+"](", "examples/README.md does not list it")
		}
	}
}
