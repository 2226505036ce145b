package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

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
	chrome.dir = filepath.Join(dir, "profile")
	defer chrome.close()
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

// chrome is the one browser of the run. It starts with the first test that needs it.
var chrome chromium

type chromium struct {
	once   sync.Once
	dir    string
	ctx    context.Context
	cancel context.CancelFunc
	none   bool // on the PATH
	err    error
}

// need returns the browser's context. Without a browser the test is skipped, or fails under REQUIRE_BROWSERS.
func (b *chromium) need(t *testing.T) context.Context {
	t.Helper()
	b.once.Do(b.start)
	switch {
	case b.none && strings.Contains(os.Getenv("REQUIRE_BROWSERS"), "chromium"):
		t.Fatal("no browser: chromium, chromium-browser or google-chrome must be on the PATH, for REQUIRE_BROWSERS")
	case b.none:
		t.Skip("no browser: needs chromium, chromium-browser or google-chrome on the PATH")
	case b.err != nil:
		t.Fatal("the browser did not start: ", b.err)
	}
	return b.ctx
}

func (b *chromium) start() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if b.none = path == ""; b.none {
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(b.dir),
		chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("no-sandbox", true), // containers rarely allow one, and all pages are ours
		chromedp.Flag("disable-gpu", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	silent := func(string, ...any) {} // of events that this version of the driver does not know
	b.ctx, b.cancel = chromedp.NewContext(allocator, chromedp.WithErrorf(silent), chromedp.WithLogf(silent))
	b.err = chromedp.Do(b.ctx)
}

func (b *chromium) close() {
	if b.cancel == nil {
		return
	}
	_ = chromedp.Cancel(b.ctx)
	b.cancel()
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
