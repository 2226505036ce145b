package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// What all tests share: the browser, the demo's program, and a host of files
// with the demo as scripts/demo writes it.
var (
	browser context.Context // nil: no chromium is installed
	program string
	files   *httptest.Server
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	chromium := installed("chromium", "chromium-browser", "google-chrome")
	if chromium == "" {
		return m.Run(), nil
	}
	dir, err := os.MkdirTemp("", "browsertest")
	if err != nil {
		return 0, err
	}
	defer removeAll(dir)
	program = filepath.Join(dir, "demo")
	page := filepath.Join(dir, "page")
	for _, command := range []*exec.Cmd{
		exec.Command("go", "build", "-o", program, ".."),
		exec.Command("../../../scripts/demo", page),
	} {
		command.Env = append(os.Environ(), "GOWORK=off")
		if command.Args[0] == "go" {
			command.Dir = ".."
			command.Args[len(command.Args)-1] = "."
		}
		if said, err := command.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%v: %w\n%s", command, err, said)
		}
	}
	files = httptest.NewServer(http.FileServer(http.Dir(page)))
	defer files.Close()

	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(ctx); err != nil {
		return 0, fmt.Errorf("%s did not start: %w", chromium, err)
	}
	browser = ctx
	return m.Run(), nil
}

// installed is the path of the first of these programs that is installed, or "".
func installed(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// removeAll removes a directory, in which processes that were told to end may
// still write.
func removeAll(dir string) {
	for range 100 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// eachHost runs a parallel test with a tab on a demo that nobody has used yet: a
// server of its own, and the host of files. opened is open or rested.
func eachHost(t *testing.T, opened func(*testing.T, string, look) *tab, l look, test func(t *testing.T, p *tab)) {
	t.Helper()
	for host, url := range map[string]func(t *testing.T) string{
		"server": func(t *testing.T) string { return start(t, "127.0.0.1:0").url },
		"files":  func(*testing.T) string { return files.URL },
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			needBrowser(t)
			p := opened(t, url(t), l)
			p.wait("the page hears the demo", text("#redis-says")+` !== ""`) // until then it hears no click
			test(t, p)
		})
	}
}

func needBrowser(t *testing.T) {
	t.Helper()
	if browser != nil {
		return
	}
	if os.Getenv("REQUIRE_CHROMIUM") != "" {
		t.Fatal("REQUIRE_CHROMIUM is set, and no chromium is installed")
	}
	t.Skip("needs chromium")
}

// process is a demo that runs.
type process struct {
	command *exec.Cmd
	url     string
}

// start starts a demo, which ends with the test.
func start(t *testing.T, addr string) *process {
	t.Helper()
	p := &process{command: exec.Command(program, "-addr", addr)}
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	lines := bufio.NewScanner(out)
	lines.Scan()
	p.url = regexp.MustCompile(`http://[\d.:]+`).FindString(lines.Text())
	if p.url == "" {
		t.Fatalf("it does not say where it is: %q", lines.Text())
	}
	return p
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}
