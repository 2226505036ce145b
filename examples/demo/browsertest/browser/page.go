package browser

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Page is a page in a window of its own. It belongs to one test, and only the test's goroutine may call its methods.
// They fail the test when what they wait for does not come to pass.
type Page struct {
	T *testing.T

	session session
	guard   *guard
	path    string // with what follows it
}

// Open opens the page at url until the test ends. The test fails if the
// page has logged an error or a warning, thrown what nobody caught, or asked for what its policy forbids.
func (b *Browser) Open(t *testing.T, url string, look Look) *Page {
	t.Helper()
	b.Need(t)
	if b.lacks != nil {
		if what := b.lacks(look); what != "" {
			t.Skipf("%s has no %s", b.Name, what)
		}
	}
	server, path := cut(t, url)
	p := &Page{T: t, guard: newGuard(t, server, look.SlowNetwork), path: path}
	var err error
	if p.session, err = b.take(look); err != nil {
		t.Fatalf("%s did not start: %v", b.Name, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.T = t
			p.Save("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		b.giveBack(look, p.session)
		for _, problem := range p.guard.problems() {
			t.Error(problem)
		}
	})
	p.must("show the page", p.session.show(look))
	p.Load()
	p.shows(look)
	return p
}

// Show changes how the page is shown, but for what the browser keeps from its start.
func (p *Page) Show(look Look) {
	p.T.Helper()
	p.must("show the page", p.session.show(look))
	p.shows(look)
}

// shows waits until the page knows its Look: it comes from another process.
func (p *Page) shows(look Look) {
	p.T.Helper()
	width, height := look.size()
	scheme, motion, forced := look.media()
	p.Wait("the page is as large as asked", `innerWidth === $[0] && innerHeight === $[1]`, width, height)
	p.Wait("the page has the media features asked for", `(matchMedia("(prefers-color-scheme: " + $[0] + ")").matches &&
		matchMedia("(prefers-reduced-motion: " + $[1] + ")").matches && ($[2] === "none" || matchMedia("(forced-colors: active)").matches))`, scheme, motion, forced)
}

// cut takes a URL apart, into its server and what the server is asked for.
func cut(t *testing.T, text string) (server *url.URL, path string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	path = u.RequestURI()
	if u.Fragment != "" {
		path += "#" + u.EscapedFragment()
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, path
}

// Load loads the page, or loads it again.
func (p *Page) Load() {
	p.T.Helper()
	p.must("load the page", p.session.call("Navigate", map[string]string{"url": p.guard.url + p.path}, nil))
}

// Go loads another page of the server, by its path, which is the page's from now on.
func (p *Page) Go(path string) {
	p.T.Helper()
	p.path = path
	p.Load()
}

func (p *Page) must(what string, err error) {
	p.T.Helper()
	if err != nil {
		p.T.Fatalf("%s: %v", what, err)
	}
}

// JS returns the value of a JavaScript expression in the page, which may await. In it $ are the arguments.
func JS[V any](p *Page, code string, args ...any) (v V) {
	p.T.Helper()
	p.must("in the page", p.eval(code, &v, args))
	return v
}

// eval runs code between the page's own scripts.
func (p *Page) eval(code string, into any, args []any) error {
	var answer struct {
		Value json.RawMessage
		Error string
	}
	if args == nil {
		args = []any{}
	}
	err := p.session.call("ExecuteAsyncScript", map[string]any{
		"script": `const $ = [...arguments], tell = $.pop();
			(async () => (` + code + `))().then(value => tell({value: value ?? null}), e => tell({error: String(e)}))`,
		"args": args,
	}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Error != "":
		return fmt.Errorf("%s: %s", code, answer.Error)
	case into == nil || answer.Value == nil:
		return nil
	}
	return json.Unmarshal(answer.Value, into)
}

// Wait waits until a JavaScript expression, which may fail meanwhile, is true. The message of a failure says that it
// did not come to pass that what.
func (p *Page) Wait(what, code string, args ...any) {
	p.T.Helper()
	var last string
	p.poll(what, func() (ok bool, now string) {
		var got struct {
			OK   bool
			Last string
		}
		if err := p.eval(`(v => ({ok: Boolean(v), last: JSON.stringify(v) ?? "undefined"}))(`+code+`)`, &got, args); err != nil {
			return false, err.Error()
		}
		last = got.Last
		return got.OK, code + " is " + last
	})
}

// WaitText waits until the page shows a text, wherever that is. Blanks and line breaks are alike.
func (p *Page) WaitText(text string) {
	p.T.Helper()
	p.Wait(fmt.Sprintf("the page shows %q", text), `document.body.innerText.replace(/\s+/g, " ").includes($[0])`, text)
}

// poll asks until the answer is yes, or patience ends.
func (p *Page) poll(what string, ask func() (ok bool, now string)) {
	p.T.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		ok, now := ask()
		if ok {
			return
		}
		waited := time.Since(began)
		if waited > patience || waited > patience/10 && len(p.guard.problems()) > 0 { // the test fails by those
			p.T.Fatalf("it did not come to pass that %s: %s", what, now)
		}
	}
}

// Screenshot returns a picture of the viewport, as PNG.
func (p *Page) Screenshot() []byte {
	p.T.Helper()
	picture, err := p.screenshot()
	p.must("take a screenshot", err)
	return picture
}

func (p *Page) screenshot() ([]byte, error) {
	var text string
	if err := p.session.call("TakeScreenshot", map[string]any{"full": false, "hash": false}, &text); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(text)
}

// Element returns a picture of the element that a CSS selector finds, and of so many pixels around it, as PNG. The
// viewport must have room for that.
func (p *Page) Element(selector string, margin int) []byte {
	p.T.Helper()
	r := JS[struct{ X, Y, Width, Height float64 }](p, `(e => { e.scrollIntoView({block: "center", behavior: "instant"}); const r = e.getBoundingClientRect(); return {x: r.x, y: r.y, width: r.width, height: r.height} })(document.querySelector($[0]))`, selector)
	whole, err := png.Decode(bytes.NewReader(p.Screenshot()))
	p.must("read the screenshot", err)
	part := image.Rect(int(r.X), int(r.Y), int(math.Ceil(r.X+r.Width)), int(math.Ceil(r.Y+r.Height))).Inset(-margin)
	if !part.In(whole.Bounds()) {
		p.T.Fatalf("%s, at %v, is larger than the viewport, %v", selector, part, whole.Bounds())
	}
	var picture bytes.Buffer
	p.must("crop", png.Encode(&picture, whole.(interface {
		SubImage(image.Rectangle) image.Image
	}).SubImage(part)))
	return picture.Bytes()
}

// Save keeps a screenshot where go test -artifacts puts them.
func (p *Page) Save(name string) {
	p.T.Helper()
	picture, err := p.screenshot()
	if err == nil {
		err = os.WriteFile(filepath.Join(p.T.ArtifactDir(), name+".png"), picture, 0o644)
	}
	if err != nil {
		p.T.Errorf("screenshot: %v", err)
	}
}
