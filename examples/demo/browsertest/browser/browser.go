// Package browser drives pages in chromium, Firefox and WebKit with the same
// code. It speaks W3C WebDriver, the one protocol that all three have:
// https://www.w3.org/TR/webdriver2/.
//
// # Why it is our own
//
// No library drives the three browsers of Debian 12. What each does there:
//
//   - puppeteer-core 24.43 (81 packages of npm, 57 MB): no WebKit. Firefox can't
//     change its media features, so each [Look] needs a start, of 7 to 9 s.
//   - selenium-webdriver 4.46 (17 packages, 20 MB) and tebeka/selenium 0.9 (39
//     modules of Go): Firefox needs geckodriver, which Debian does not have.
//   - playwright-core 1.65 (1 package, 14 MB): chromium alone. Firefox and
//     WebKit must be its own builds, which it downloads.
//   - chromedp 0.23 (3 modules), rod 0.116 (8): chromium alone.
//   - WebDriver BiDi without a library: WebKitGTK 2.50 refuses such sessions,
//     and it needs WebSockets.
//
// A library would replace wire.go and marionette.go, which are 280 lines. What
// these tests need besides would stay: the [guard], elements by role and name,
// sizes and media features, a display for WebKit. Browsers start as fast here:
// chromium in 1.9 s, Firefox in 7 to 8 s, WebKit in 1.7 s.
package browser

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Browser is one of the browsers that pages are tested in. Its methods may be called by several tests at once.
type Browser struct {
	Name string

	needs    []string // programs, each by its names, of which one is enough
	packages string   // those of Debian that have them

	start func(Look) (session, error) // opens a window of its own
	fixed func(Look) Look             // the part of a Look that a window keeps from its start
	lacks func(Look) (what string)    // the part that the browser can't show
	mu    sync.Mutex
	idle  map[Look][]session // windows that no test uses, by the part of their Look that is fixed
}

// session is a window of a browser, which is a process of its own.
type session struct {
	wire
	show func(Look) error // sets what is not fixed
	dir  string           // its files, which end with it
}

func (s session) close() error {
	err := s.wire.close()
	for range 100 { // processes that were told to end still write
		if s.dir == "" || os.RemoveAll(s.dir) == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// Chromium, Firefox and WebKit are all that there are.
var (
	Chromium = &Browser{Name: "chromium", needs: []string{chromiums, "chromedriver"}, packages: "chromium and chromium-driver", start: startChromium}
	Firefox  = &Browser{Name: "firefox", needs: []string{firefoxes}, packages: "firefox-esr", start: startFirefox}
	WebKit   = &Browser{Name: "webkit", needs: []string{"WebKitWebDriver", "Xvfb"}, packages: "webkit2gtk-driver and xvfb", start: startWebKit, fixed: fixedByGTK, lacks: lackedByGTK}
)

var all = []*Browser{Chromium, Firefox, WebKit}

// Each runs a test as a parallel subtest in each browser. A browser that is not installed is skipped, or fails the test
// if the environment's REQUIRE_BROWSERS has its name.
func Each(t *testing.T, test func(t *testing.T, in *Browser)) {
	t.Helper()
	for _, b := range all {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			b.Need(t)
			test(t, b)
		})
	}
}

// Need skips the test if the browser is not installed, or fails it if REQUIRE_BROWSERS has its name.
func (b *Browser) Need(t *testing.T) {
	t.Helper()
	if !slices.ContainsFunc(b.needs, func(names string) bool { return onPath(names) == "" }) {
		return
	}
	missing := "what Debian's packages " + b.packages + " have"
	required := strings.FieldsFunc(os.Getenv("REQUIRE_BROWSERS"), func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(required, b.Name) {
		t.Fatalf("REQUIRE_BROWSERS has %s, and it needs %s", b.Name, missing)
	}
	t.Skipf("%s needs %s", b.Name, missing)
}

// onPath is the path of the first of the named programs that is installed, or "".
func onPath(names string) string {
	for name := range strings.FieldsSeq(names) {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// take returns a window for a Look: one that no test uses, or a new one.
func (b *Browser) take(look Look) (session, error) {
	key := b.key(look)
	b.mu.Lock()
	if free := b.idle[key]; len(free) > 0 {
		b.idle[key] = free[:len(free)-1]
		b.mu.Unlock()
		return free[len(free)-1], nil
	}
	b.mu.Unlock()
	s, err := b.start(look)
	if err != nil {
		return s, err
	}
	if err := s.call("SetTimeouts", map[string]int64{"script": patience.Milliseconds(), "pageLoad": patience.Milliseconds()}, nil); err != nil {
		_ = s.close()
		return s, err
	}
	return s, nil
}

// giveBack makes a window ready for another test. One that fails at that is closed.
func (b *Browser) giveBack(look Look, s session) {
	for _, c := range []struct {
		command string
		params  any
	}{{"ReleaseActions", nil}, {"Navigate", map[string]string{"url": "about:blank"}}} {
		if err := s.call(c.command, c.params, nil); err != nil {
			_ = s.close()
			return
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle == nil {
		b.idle = make(map[Look][]session)
	}
	b.idle[b.key(look)] = append(b.idle[b.key(look)], s)
}

func (b *Browser) key(look Look) Look {
	if b.fixed == nil {
		return Look{}
	}
	return b.fixed(look)
}

// Close ends all browsers. Call it when the tests are over.
func Close() {
	for _, b := range all {
		b.mu.Lock()
		for _, free := range b.idle {
			for _, s := range free {
				if err := s.close(); err != nil {
					fmt.Fprintf(os.Stderr, "%s did not end: %v\n", b.Name, err)
				}
			}
		}
		b.idle = nil
		b.mu.Unlock()
	}
}
