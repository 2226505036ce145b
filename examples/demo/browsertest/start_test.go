package browsertest

import (
	"net"
	"strings"
	"testing"
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

func TestWithoutRedisBucketsAreInTheProcess(t *testing.T) {
	t.Parallel()
	if redisAtUsualPlace() {
		t.Skip("a Redis is at localhost:6379, and the demo would use it")
	}
	p := start(t)
	if !strings.Contains(p.line, "in this process") {
		t.Errorf("it starts with %q", p.line)
	}
	p.open().wait("the page says where the buckets are", `document.querySelector("#store-text").textContent.includes("in this process")`)
}

func TestTwoProcessesShareTheBucketsOfARedis(t *testing.T) {
	t.Parallel()
	flags := onRedis(t)
	first, second := start(t, flags...), start(t, flags...)
	first.set(slow())
	second.set(slow())
	a, b := first.open(), second.open()
	for _, tab := range []*tab{a, b} {
		tab.wait("the page says that the buckets are in Redis", `document.querySelector("#store-text").textContent.includes("Redis")`)
	}
	// On a machine that does much else Redis may be too slow for a request, which is then decided alone: once more.
	alone := func(tab *tab) bool {
		return js[bool](tab, `/alone/.test(document.querySelector("#log").textContent)`)
	}
	for range 10 {
		for _, tab := range []*tab{a, b} {
			tab.click("#reset")
			tab.wait("its list is empty", `!document.querySelector("#log tr")`)
		}
		for _, tab := range []*tab{a, b} {
			tab.wait("the bucket is full", tokens+` === 10`)
			tab.fill("#burst-n", "6")
		}
		a.click("#burst")
		a.wait("six are answered", `document.querySelectorAll("#log tr").length === 6`)
		if alone(a) {
			continue
		}
		b.wait("the other page's bucket has 4 left", tokens+` >= 4 && `+tokens+` < 5`)
		b.click("#burst")
		b.wait("six are answered", `document.querySelectorAll("#log tr").length === 6`)
		if alone(b) {
			continue
		}
		b.waitRows(200, 4)
		b.waitRows(429, 2)
		a.wait("the first page's bucket is empty", tokens+` < 1`)
		a.click("#send")
		a.wait("seven are answered", `document.querySelectorAll("#log tr").length === 7`)
		if alone(a) {
			continue
		}
		a.waitRows(429, 1)
		return
	}
	t.Error("Redis was too slow all the time")
}
