package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a tab of the browser with the demo's page in it. When the test ends, it fails if the tab has logged an error,
// thrown an exception or asked another host for something.
type tab struct {
	t    *testing.T
	ctx  context.Context
	demo *process

	mu       sync.Mutex
	problems []string
}

// open opens the page in a window of its own, as another person would.
func (p *process) open(how ...func(*tab)) *tab {
	p.t.Helper()
	return p.openIn(chrome.need(p.t), []chromedp.ContextOption{chromedp.WithNewBrowserContext()}, how...)
}

// beside opens the page in a second tab of the same person.
func (b *tab) beside() *tab {
	b.t.Helper()
	return b.demo.openIn(b.ctx, nil)
}

func (p *process) openIn(parent context.Context, options []chromedp.ContextOption, how ...func(*tab)) *tab {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(parent, options...)
	b := &tab{t: p.t, ctx: ctx, demo: p}
	p.t.Cleanup(func() {
		if p.t.Failed() {
			b.save("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
		}
		cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, problem := range b.problems {
			p.t.Error(problem)
		}
	})
	b.must("listen", chromedp.Listen(ctx, b.watch))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	b.must("watch the network", err)
	b.viewport(1280, 900, false)
	for _, f := range how {
		f(b)
	}
	b.load()
	return b
}

// load loads the page, or loads it again, and waits until the server has greeted it.
func (b *tab) load() {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, page.Navigate, page.NavigateParams{URL: b.demo.url + "/"})
	b.must("navigate", err)
	b.wait("the page is filled", `location.protocol === "http:" && document.readyState === "complete" &&
		document.querySelector("#store-text").textContent.includes("uckets") && document.querySelector(".level[data-tokens]")`)
}

// watch gathers what must not happen.
func (b *tab) watch(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = "an exception was not caught: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			problem = fmt.Sprintf("console.%s: ", e.Type)
			for _, a := range e.Args {
				problem += string(a.Value) + a.Description + " "
			}
		}
	case *log.EventEntryAdded:
		u, err := url.Parse(e.Entry.URL)
		answered := err == nil && strings.Contains(e.Entry.Text, "responded with a status of 4") &&
			(strings.HasSuffix(u.Path, "/limited") || u.Path == "/api/settings") // the browser logs each 429 and 422
		if !answered && (e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning) {
			problem = fmt.Sprintf("the console says: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		if err != nil || u.Host != b.demo.addr && u.Scheme != "data" && u.Scheme != "blob" && u.Scheme != "about" {
			problem = "the page asks elsewhere: " + e.Request.URL
		}
	}
	if problem != "" {
		b.mu.Lock()
		b.problems = append(b.problems, problem)
		b.mu.Unlock()
	}
}

func (b *tab) must(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// script makes an expression of code, in which $ are the arguments.
func script(format, code string, args []any) string {
	list := []string{}
	for _, a := range args {
		text, err := json.Marshal(a)
		if err != nil {
			panic(err)
		}
		list = append(list, string(text))
	}
	return fmt.Sprintf("("+format+")(%s)", code, strings.Join(list, ","))
}

func (b *tab) evaluate(expression string, into any) error {
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	yes := true
	res, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: expression, ReturnByValue: &yes, AwaitPromise: &yes})
	switch {
	case err != nil:
		return err
	case res.ExceptionDetails != nil && res.ExceptionDetails.Exception != nil:
		return fmt.Errorf("%s: %s", expression, res.ExceptionDetails.Exception.Description)
	case res.ExceptionDetails != nil:
		return fmt.Errorf("%s: %s", expression, res.ExceptionDetails.Text)
	case into == nil || res.Result.Type == "undefined":
		return nil
	}
	return json.Unmarshal([]byte(res.Result.Value), into)
}

// js is the value of a JavaScript expression in the page.
func js[T any](b *tab, code string, args ...any) (v T) {
	b.t.Helper()
	b.must("in the page", b.evaluate(script("async (...$) => (%s)", code, args), &v))
	return v
}

// wait waits in the page until code, which may fail meanwhile, is true.
func (b *tab) wait(what, code string, args ...any) {
	b.t.Helper()
	var got struct {
		OK   bool
		Last string
	}
	format := fmt.Sprintf(`async (...$) => {
		for (const end = performance.now() + %d;;) {
			let last;
			try { if (last = await (%%s)) return {ok: true} } catch (e) { last = e }
			if (performance.now() > end) return {ok: false, last: String(last)};
			await new Promise(r => setTimeout(r, 20));
		}
	}`, patience.Milliseconds())
	b.must(what, b.evaluate(script(format, code, args), &got))
	if !got.OK {
		b.t.Fatalf("it did not come to pass that %s: %s (with %v) is %s", what, code, args, got.Last)
	}
}

// eventually waits for a condition outside of the page.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for began := time.Now(); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("it did not come to pass that ", what)
		}
	}
}

// point finds where the pointer meets the element, or nothing while something else is there.
const point = `(() => {
	const e = document.querySelector($[0]);
	if (e.disabled) return null;
	e.scrollIntoView({block: "center", behavior: "instant"});
	const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, hit = document.elementFromPoint(x, y);
	if (!hit || !(e.contains(hit) || [...e.labels || []].some(l => l.contains(hit)))) return null;
	window.testMet = false;
	e.addEventListener($[1], () => { window.testMet = true }, {capture: true, once: true});
	return {x, y};
})()`

type xy struct{ X, Y float64 }

// meet does something with the pointer on an element until the event it leads to comes there: the page may move.
func (b *tab) meet(selector, event string, f func(xy)) xy {
	b.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		at := js[*xy](b, point, selector, event)
		if at == nil {
			continue
		}
		f(*at)
		if js[bool](b, `window.testMet`) {
			return *at
		}
	}
	b.t.Fatalf("%s can't be pressed", selector)
	return xy{}
}

func (b *tab) mouse(kind input.DispatchMouseEventType, at xy) {
	b.t.Helper()
	m := input.DispatchMouseEventParams{Type: kind, X: at.X, Y: at.Y}
	if kind != input.DispatchMouseEventTypeMouseMoved {
		m.Button, m.ClickCount = input.MouseButtonLeft, 1
		if kind == input.DispatchMouseEventTypeMousePressed {
			m.Buttons = 1
		}
	}
	_, err := chromedp.Call(b.ctx, input.DispatchMouseEvent, m)
	b.must("mouse", err)
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.meet(selector, "click", func(at xy) {
		b.mouse(input.DispatchMouseEventTypeMouseMoved, at)
		b.mouse(input.DispatchMouseEventTypeMousePressed, at)
		b.mouse(input.DispatchMouseEventTypeMouseReleased, at)
	})
}

// press holds the mouse button down on an element.
func (b *tab) press(selector string) xy {
	b.t.Helper()
	return b.meet(selector, "pointerdown", func(at xy) {
		b.mouse(input.DispatchMouseEventTypeMouseMoved, at)
		b.mouse(input.DispatchMouseEventTypeMousePressed, at)
	})
}

// key sends one half of a key stroke.
func (b *tab) key(r rune, kind input.DispatchKeyEventType) {
	b.t.Helper()
	k := kb.Keys[r]
	e := input.DispatchKeyEventParams{Type: kind, Key: k.Key, Code: k.Code, WindowsVirtualKeyCode: k.Windows, NativeVirtualKeyCode: k.Native}
	if kind == input.DispatchKeyEventTypeKeyDown {
		e.Text, e.UnmodifiedText = k.Text, k.Unmodified
	}
	_, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, e)
	b.must("key", err)
}

func (b *tab) stroke(r rune) {
	b.t.Helper()
	b.key(r, input.DispatchKeyEventTypeKeyDown)
	b.key(r, input.DispatchKeyEventTypeKeyUp)
}

// fill types into a field in place of what it holds, or chooses of a select.
func (b *tab) fill(selector, value string) {
	b.t.Helper()
	b.wait(selector+" is there", `document.querySelector($[0])`, selector)
	if js[bool](b, `document.querySelector($[0]).matches("select")`, selector) {
		js[any](b, `(e => {
			e.value = $[1];
			e.dispatchEvent(new Event("input", {bubbles: true}));
			e.dispatchEvent(new Event("change", {bubbles: true}));
		})(document.querySelector($[0]))`, selector, value)
	} else {
		js[any](b, `(e => { e.focus(); e.select() })(document.querySelector($[0]))`, selector)
		if value == "" {
			b.stroke([]rune(kb.Backspace)[0])
		} else {
			_, err := chromedp.Call(b.ctx, input.InsertText, input.InsertTextParams{Text: value})
			b.must("type", err)
		}
	}
	if got := js[string](b, `document.querySelector($[0]).value`, selector); got != value {
		b.t.Fatalf("%s does not take %q: it holds %q", selector, value, got)
	}
}

// field is the selector of a setting.
func field(name string) string { return fmt.Sprintf(`#settings [name="%s"]`, name) }

func (b *tab) viewport(width, height int64, phone bool) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: phone,
	})
	b.must("viewport", err)
}

func phone(b *tab) { b.viewport(390, 844, true) }

func dark(b *tab)  { b.scheme("dark") }
func light(b *tab) { b.scheme("light") }

func (b *tab) scheme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	b.must("colour scheme", err)
}

// save keeps a screenshot as an artefact of the test: in DEMO_SCREENSHOTS, or where go test -artifacts puts them.
func (b *tab) save(name string) []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	if err != nil {
		b.t.Errorf("screenshot: %v", err)
		return nil
	}
	dir := os.Getenv("DEMO_SCREENSHOTS")
	if dir == "" {
		dir = b.t.ArtifactDir()
	}
	if err := os.MkdirAll(dir, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), shot.Data, 0o644)
		b.must("screenshot", err)
	}
	return shot.Data
}

// tokens is the level that the page shows of its only bucket's first limit.
const tokens = `Number(document.querySelector(".bucket .level").dataset.tokens)`

// count is the number a metric shows.
func (b *tab) waitCount(id string, n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf("%s is %d", id, n), `Number(document.querySelector($[0]).textContent.replace(/[^0-9]/g, "")) === $[1]`, id, n)
}

// waitRows waits for n requests of a status in the log.
func (b *tab) waitRows(status, n int) {
	b.t.Helper()
	b.wait(fmt.Sprintf("%d requests with %d are in the log", n, status),
		`document.querySelectorAll("#log tr[data-status=\"" + $[0] + "\"]").length === $[1]`, status, n)
}
