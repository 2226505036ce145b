package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for what it expects. It decides nothing on
// a machine that works.
const patience = 2 * time.Minute

// tab is the page in a window of its own. Its methods fail the test.
type tab struct {
	t   *testing.T
	ctx context.Context

	loses    bool // the demo ends while the page is open
	mu       sync.Mutex
	problems []string // errors and warnings that the page logged, and what it threw
}

// look is how a page is shown.
type look struct {
	width, height int64
	media         map[string]string // features
}

var (
	desktop = look{width: 1440, height: 900}
	phone   = look{width: 360, height: 740}
)

// open opens the page until the test ends. By then it must have had no problems.
func open(t *testing.T, url string, l look) *tab {
	t.Helper()
	p := &tab{t: t}
	var end context.CancelFunc
	p.ctx, end = chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	t.Cleanup(func() {
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, problem := range p.problems {
			if p.loses && strings.Contains(problem, "net::ERR_") {
				continue
			}
			t.Errorf("the page has a problem: %s", problem)
		}
	})
	var size []chromedp.EmulateViewportOption
	if l.width < 600 {
		size = append(size, chromedp.EmulateMobile)
	}
	media := emulation.SetEmulatedMediaParams{}
	for name, value := range l.media {
		media.Features = append(media.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	p.do(
		chromedp.EmulateViewport(l.width, l.height, size...),
		chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
			return err
		}),
		chromedp.Navigate(url),
	)
	return p
}

// hear notes the page's problems.
func (p *tab) hear(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeWarning {
			return
		}
		for _, arg := range e.Args {
			problem += string(arg.Value) + " "
		}
	case *runtime.EventExceptionThrown:
		problem = (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error()
	case *log.EventEntryAdded:
		if e.Entry.Level != log.EntryLevelError && e.Entry.Level != log.EntryLevelWarning {
			return
		}
		problem = e.Entry.Text + " " + e.Entry.URL
		if strings.Contains(problem, "409 (Conflict)") || strings.Contains(problem, "422 (Unprocessable") {
			return // what the visitor asked for was refused, and the page says why
		}
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, problem)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, patience)
	defer end()
	if err := chromedp.Do(p.ctx); err != nil { // the window's life is that of p.ctx
		p.t.Fatal(err)
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// click clicks the element of a selector with the mouse.
func (p *tab) click(selector string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(selector)))
}

// fill types into the field of a selector, in place of what is there.
func (p *tab) fill(selector, typed string) {
	p.t.Helper()
	js[any](p, fmt.Sprintf(`document.querySelector(%q).select()`, selector))
	p.do(chromedp.SendKeys(chromedp.CSS(selector), typed))
}

// js returns the value of a JavaScript expression, which may be a promise.
func js[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, patience)
	defer end()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until a JavaScript expression, which may fail meanwhile, is true.
func (p *tab) wait(what, expression string) {
	p.t.Helper()
	ctx, end := context.WithTimeout(p.ctx, patience)
	defer end()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`Boolean(`+expression+`)`))
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("it did not come to pass that %s: %s (%v)", what, expression, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask has the page ask the demo something, until that is granted: a script may
// still play.
func (p *tab) ask(path string, body any) {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	asks := fmt.Sprintf(`import(new URL("ask.js", location)).then(m => m.ask("POST", %q, %s)).then(a => a.ok)`, path, text)
	for began := time.Now(); !js[bool](p, asks); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > patience {
			p.t.Fatalf("%s %s is refused", path, text)
		}
	}
}

// text is the text of the first element of a selector, in JavaScript.
func text(selector string) string {
	return fmt.Sprintf(`document.querySelector(%q).textContent`, selector)
}

// all are the elements of a selector, in JavaScript.
func all(selector string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)]`, selector)
}

// number is that of tokens in the first picture, and discs how many it shows.
var (
	number = `Number(` + text("#picture .number") + `)`
	discs  = all("#picture .tokens:not(.air) .token") + `.filter(e => !e.getAttribute("visibility")).length`
)

// rested opens the page, waits until its first burst has been played, and has the
// first picture refill so slowly that nothing comes back while a test looks. Its
// bucket then is full.
func rested(t *testing.T, url string, l look) *tab {
	t.Helper()
	p := open(t, url, l)
	p.wait("a burst plays by itself", `document.querySelectorAll("#rows tr").length === 15`)
	p.ask("api/settings/drain", map[string]any{"interval_ms": 3600e3})
	p.ask("api/run/drain/fill", map[string]any{})
	p.wait("the bucket is full", number+` === 10`)
	return p
}
