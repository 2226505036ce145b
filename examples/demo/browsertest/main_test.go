package browsertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// program is the demo's binary, built for this run.
var program string

// patience is how long a test waits for what must come to pass.
const patience = time.Minute

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "demo-browsertest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer removeAll(dir)
	program = filepath.Join(dir, "demo")
	args := []string{"build", "-buildvcs=false", "-o", program}
	if raceDetector() {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "./examples/demo")...)
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the demo can't be built: %v\n%s", err, out)
		return 1
	}
	defer browser.Close()
	return m.Run()
}

// raceDetector tells whether these tests run with -race: then the demo does too.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "-race" && s.Value == "true" {
			return true
		}
	}
	return false
}

// removeAll tries again while processes that were told to end still write.
func removeAll(dir string) {
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
