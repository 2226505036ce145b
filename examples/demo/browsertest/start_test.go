package browsertest

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

func TestStartFailsInOneLine(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const closed = "1" // nobody's: a port that is free now may be taken before the demo looks
	for _, c := range []struct {
		name  string
		flags []string
		says  string
	}{
		{"taken port", []string{"-addr", taken.Addr().String()}, taken.Addr().String() + " is taken"},
		{"no Redis there", []string{"-addr", "127.0.0.1:0", "-redis-host", "127.0.0.1", "-redis-port", closed}, "no Redis at 127.0.0.1:" + closed},
		{"impossible Redis port", []string{"-addr", "127.0.0.1:0", "-redis-port", "70000"}, "70000"},
		{"stray argument", []string{"8081"}, `"8081"`},
		{"a port alone", []string{"-addr", "8081"}, "such as localhost:8081"},
		{"unknown flag", []string{"-bogus"}, "-bogus"},
		{"a word for a port", []string{"-redis-port", "abc"}, `"abc"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			stderr, code := ends(t, c.flags...)
			if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "demo: ") || !strings.Contains(stderr, c.says) {
				t.Errorf("exit code %d and\n%swant 1 and one line that says %q", code, stderr, c.says)
			}
		})
	}
}

func TestARedisWithAPasswordIsNotTakenForNone(t *testing.T) {
	flags, _ := redisServer(t, "--requirepass", "secret")
	stderr, code := ends(t, append([]string{"-addr", "127.0.0.1:0"}, flags...)...)
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "wants a password") {
		t.Errorf("exit code %d and\n%s", code, stderr)
	}
}

// The terminal says what to open, what to try first, and how to stop.
func TestTheTerminalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, part := range []string{"Open " + p.url, "Try first: press \"Send 15 at once\"", "Stop the demo with Ctrl+C"} {
		if !strings.Contains(p.said.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, p.said.String())
		}
	}
}

func TestWithoutRedisBucketsAreInTheProcess(t *testing.T) {
	t.Parallel()
	if redisAtUsualPlace() {
		t.Skip("a Redis is at localhost:6379, and the demo would use it")
	}
	if p := start(t); !strings.Contains(p.line, "in this process") {
		t.Errorf("it starts with %q", p.line)
	}
}

// Two demos on one Redis share the buckets, and each page shows what the other one took.
func TestTwoProcessesShareTheBucketsOfARedis(t *testing.T) {
	flags := onRedis(t)
	first, second := start(t, flags...), start(t, flags...)
	first.set(hour)
	second.set(hour)
	page := first.in(browser.Chromium, browser.Look{})
	page.Wait("the page says that the buckets are in Redis, and has played", `/Redis/.test(document.querySelector("#place").textContent) && `+number+` === 0`)
	first.post("/api/run/drain/fill", map[string]any{})
	page.Wait("the bucket is full", number+` === 10`)
	for range 4 {
		second.ask("gin", "ann")
	}
	page.Wait("the page shows what the other process took", number+` === 6`)
}

// A demo that is killed takes its redis-server along, and its files.
func TestNothingIsLeftOfADemoThatIsKilled(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH")
	}
	dir, err := os.MkdirTemp("", "left") //nolint:usetesting // short, as the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(dir) })
	t.Setenv("TMPDIR", dir)
	p := start(t)
	p.post("/api/redis", map[string]any{"on": true})
	left := func() int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if left() == 0 {
		t.Fatal("premise: its redis-server has a directory")
	}
	p.kill()
	for began := time.Now(); left() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("its redis-server has outlived it")
		}
	}
}
