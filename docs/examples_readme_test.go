package docs_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The example on examples/README.md answers six requests with the statuses that the page shows.
func TestTheGinExampleAnswersAsItsPageShows(t *testing.T) {
	text, err := os.ReadFile("../examples/README.md")
	require.NoError(t, err)
	want := regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindStringSubmatch(string(text))
	require.NotNil(t, want)
	program := filepath.Join(t.TempDir(), "gin")
	out, err := exec.Command("go", "build", "-o", program, "../examples/gin").CombinedOutput()
	require.NoError(t, err, "%s", out)

	addr := freeAddr(t)
	run := exec.Command(program, "-addr", addr)
	require.NoError(t, run.Start())
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the program does not listen")

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
