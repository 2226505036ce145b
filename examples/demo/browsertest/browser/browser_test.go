package browser

import (
	"bytes"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	code := m.Run()
	Close()
	os.Exit(code)
}

// serve serves a page with a policy as strict as the demo's.
func serve(t *testing.T, body, script string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width"><title>Page</title><link rel="icon" href="/icon"><script type="module" src="/page.js"></script></head><body>`+body+`</body></html>`)
	})
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, script)
	})
	mux.HandleFunc("GET /icon", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// Open waits until the page has its Look, also in a window that had another before.
func TestAPageHasItsLook(t *testing.T) {
	url := serve(t, `<p>text</p>`, ``)
	Each(t, func(t *testing.T, in *Browser) {
		for _, look := range []Look{{}, {Dark: true}, {ReducedMotion: true}, {ForcedColors: true}, {Dark: true, ReducedMotion: true, ForcedColors: true}, Phone, {Width: 1366, Height: 650}, {}} {
			t.Run("", func(t *testing.T) {
				page := in.Open(t, url, look)
				width, height := look.size()
				shot, err := png.DecodeConfig(bytes.NewReader(page.Screenshot()))
				if err != nil || shot.Width != width || shot.Height != height {
					t.Errorf("the screenshot is %d by %d, %v; want %d by %d", shot.Width, shot.Height, err, width, height)
				}
			})
		}
	})
}

const controls = `<main>
<p id="said">nothing</p>
<button type="button">Send <b>15</b> at once</button><button type="button">Send 1</button>
<label>Capacity <input type="number" value="10"></label>
<label>Framework <select><option>gin</option><option>chi</option></select></label>
<div role="slider" tabindex="0" aria-label="Rim">rim</div>
<button hidden>Send 1</button>
<p id="room"></p><button type="button">Far below</button></main>`

const says = `
document.querySelector("#room").style.height = "3000px"; // so may scripts
const said = document.querySelector("#said"), say = text => { said.textContent = text };
for (const b of document.querySelectorAll("button")) b.addEventListener("click", e => say("clicked " + b.innerText + " " + e.isTrusted));
document.querySelector("input").addEventListener("input", e => say("typed " + e.target.value));
document.querySelector("select").addEventListener("change", e => say("chose " + e.target.value));
const rim = document.querySelector("[role=slider]");
rim.addEventListener("pointerdown", e => { rim.setPointerCapture(e.pointerId); rim.dataset.from = e.clientY });
rim.addEventListener("pointermove", e => say(rim.dataset.from ? "dragged " + Math.round(e.clientY - rim.dataset.from) : "hovered"));
rim.addEventListener("keydown", e => { rim.dataset.down = e.key });
rim.addEventListener("keyup", e => say("key up " + e.key + " after down " + rim.dataset.down));
`

// Show changes a page's size while it is open.
func TestShowChangesAnOpenPage(t *testing.T) {
	url := serve(t, `<p>text</p>`, `window.widths = []; addEventListener("resize", () => widths.push(innerWidth));`)
	Each(t, func(t *testing.T, in *Browser) {
		page := in.Open(t, url, Look{})
		page.Show(Phone)
		page.Wait("the page hears of its new size", `widths.at(-1) === 390`)
	})
}

// A page below a path, and one to which a link leads, have what tests add.
func TestGoLoadsAnotherPage(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /some/where/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><title>Page</title><link rel="icon" href="data:,"></head><body><h1>`+r.URL.RequestURI()+`</h1></body></html>`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	Each(t, func(t *testing.T, in *Browser) {
		page := in.Open(t, s.URL+"/some/where/?q=1", Look{})
		for _, c := range []struct{ path, want string }{{"", "/some/where/?q=1"}, {"/some/where/a.html#b", "/some/where/a.html"}} {
			if c.path != "" {
				page.Go(c.path)
			}
			if got := page.Text("heading", "/some"); got != c.want {
				t.Errorf("the page is that of %s; want %s", got, c.want)
			}
		}
	})
}

// Mouse and keys reach elements by role and name, as a user's do.
func TestMouseAndKeysReachElements(t *testing.T) {
	url := serve(t, controls, says)
	Each(t, func(t *testing.T, in *Browser) {
		page := in.Open(t, url, Look{})
		for _, c := range []struct {
			do   func()
			want string
		}{
			{func() { page.Click("button", "Send 15 at once") }, "clicked Send 15 at once true"},
			{func() { page.Click("button", "Send 1") }, "clicked Send 1 true"}, // the name is a part of the other's, too
			{func() { page.Click("button", "below") }, "clicked Far below true"},
			{func() { page.Fill("spinbutton", "Capacity", "42") }, "typed 42"},
			{func() { page.Fill("spinbutton", "Capacity", "") }, "typed "},
			{func() { page.Fill("combobox", "Framework", "chi") }, "chose chi"},
			{func() { page.Hover("slider", "Rim") }, "hovered"},
			{func() { page.Drag("slider", "Rim", 0, 40) }, "dragged 40"},
			{func() { page.Focus("slider", "Rim"); page.Key("ArrowUp") }, "key up ArrowUp after down ArrowUp"},
		} {
			c.do()
			page.poll("the page hears "+c.want, func() (bool, string) {
				heard := JS[string](page, `document.querySelector("#said").textContent`)
				return heard == c.want, heard
			})
		}
		page.Reach("slider", "Rim") // again: it is around all others
		if got := JS[string](page, `document.activeElement.textContent`); got != "rim" {
			t.Errorf("Tab comes to %q, want the rim", got)
		}
		if got := page.Text("button", "15"); got != "Send 15 at once" {
			t.Errorf("the button's text is %q", got)
		}
		if config, err := png.DecodeConfig(bytes.NewReader(page.Element("[role=slider]", 4))); err != nil || config.Height > 100 {
			t.Errorf("the slider's picture is %d pixels high, %v", config.Height, err)
		}
	})
}

// A page's problems reach the guard: tests fail by them.
func TestTheGuardHearsOfProblems(t *testing.T) {
	url := serve(t, `<p>text</p>`, `
console.warn("careful");
setTimeout(() => { throw new Error("thrown") });
Promise.reject(new Error("rejected"));
fetch("http://192.0.2.1/elsewhere").catch(() => {});`)
	Each(t, func(t *testing.T, in *Browser) {
		page := in.Open(t, url, Look{})
		for _, want := range []string{"careful", "thrown", "rejected", "forbids connect-src"} {
			page.poll("the guard hears of "+want, func() (bool, string) {
				all := strings.Join(page.guard.problems(), "\n")
				return strings.Contains(all, want), all
			})
		}
		page.guard.mu.Lock()
		page.guard.bad = nil
		page.guard.mu.Unlock()
	})
}

func TestASlowNetworkIsSlow(t *testing.T) {
	url := serve(t, `<p>text</p>`, `document.body.dataset.ready = "yes"; //`+strings.Repeat("x", 60_000))
	Each(t, func(t *testing.T, in *Browser) {
		page := in.Open(t, url, Look{SlowNetwork: true})
		page.Wait("the script has run", `document.body.dataset.ready`)
		took := JS[float64](page, `performance.getEntriesByType("resource").find(e => e.name.endsWith("/page.js")).responseEnd`)
		if least := 2*roundTrip + perByte*60_000; time.Duration(took)*time.Millisecond < least-10*time.Millisecond {
			t.Errorf("60 kB came within %.0f ms, where the network needs %v", took, least)
		}
	})
}
