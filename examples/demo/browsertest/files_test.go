package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// onBothHosts runs a test in each browser with a server, and with a host of files alone, where the demo is in a worker of the page.
func onBothHosts(t *testing.T, test func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process)) {
	t.Helper()
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		t.Run("server", func(t *testing.T) { test(t, in, start) })
		t.Run("files", func(t *testing.T) {
			test(t, in, func(t *testing.T, _ ...string) *process { return startFiles(t) })
		})
	})
}

// files is a plain file server, with the site below a path.
type files struct {
	page    *browser.Page // the latest
	program chan struct{} // the host sends it when this is closed; nil: at once

	mu     sync.Mutex
	before []request // what the demo is asked before the page asks
}

type request struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Body   string `json:"body"`
}

// site writes the project's site once for all tests.
var site = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(program), "site")
	build := exec.Command("../../../scripts/site", dir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the site can't be built: %w\n%s", err, out)
	}
	return dir, nil
})

// below is where the site is on its host.
const below = "/some/where/"

// channel is what tests add to the worker of the page: its demo answers them too. %s are the requests before the page's.
const channel = `
ready.then(() => { for (const r of %s) demo.ask(r.method, r.path, r.body, () => {}); });
const tests = new BroadcastChannel("test");
tests.onmessage = async ({ data: { method, path, body } }) => {
	if (!method) return;
	if (method === "end") return end();
	await ready;
	demo.ask(method, path, body, (status, text) => tests.postMessage({ status, text }));
};
`

// startFiles is start without a demo's server.
func startFiles(t *testing.T) *process {
	t.Helper()
	dir, err := site()
	if err != nil {
		t.Fatal(err)
	}
	f := &files{before: []request{}}
	static := http.StripPrefix(below, http.FileServer(http.Dir(dir)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == below+"demo/worker.js" {
			f.mu.Lock()
			before, _ := json.Marshal(f.before)
			f.mu.Unlock()
			text, _ := os.ReadFile(filepath.Join(dir, "demo", "worker.js"))
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(fmt.Appendf(text, channel, before))
			return
		}
		if strings.HasSuffix(r.URL.Path, ".wasm") && f.program != nil {
			select {
			case <-f.program:
			case <-r.Context().Done():
			}
		}
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(r.URL.Path, below)))); err != nil {
			t.Errorf("the page asks for %s, which the site has not", r.URL.Path)
		}
		static.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &process{t: t, url: server.URL + below + "demo/", files: f}
}

// ask has the demo in the page answer a request, or answers it there before all others when no page is open yet.
func (f *files) ask(method, path string, body any) (status int, text string) {
	var sent bytes.Buffer
	_ = json.NewEncoder(&sent).Encode(body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.page == nil {
		f.before = append(f.before, request{method, path, sent.String()})
		return http.StatusOK, ""
	}
	got := browser.JS[struct {
		Status int
		Text   string
	}](f.page, `new Promise(done => {
		const tests = new BroadcastChannel("test");
		tests.onmessage = ({ data }) => { if (data.status) { tests.close(); done(data); } };
		tests.postMessage({ method: $[0], path: $[1], body: $[2] });
	})`, method, path, sent.String())
	return got.Status, got.Text
}

// The picture, the words and the code are there before the program, which is two megabytes. What is asked meanwhile is answered then.
func TestThePictureIsThereBeforeTheProgram(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := startFiles(t)
		p.set(hour)
		p.files.program = make(chan struct{})
		page := in.Open(t, p.url, browser.Look{})
		page.Wait("the bucket is full", number+` === 10 && [...document.querySelectorAll("#picture .tokens .token")].every(e => e.getAttribute("visibility") !== "hidden")`)
		page.Wait("the code is there", `/^bucket := core\.Per\(1, time\.Second\)\.WithBurst\(10\)\n/.test(document.querySelector("#code").textContent) && /redisstore/.test(document.querySelector("#code-lose").textContent)`)
		page.Wait("the chapters are drawn", `["#f-modes", "#f-share", "#f-lose", "#f-yours"].every(s => document.querySelectorAll(s + " .slot").length > 0)`)
		page.WaitText("the limiter is loading")
		page.Save("before-the-program-" + in.Name)
		page.Click("button", "Fill the bucket")
		close(p.files.program)
		page.Wait("what was asked is answered", `document.querySelectorAll("#rows tr").length === 15`)
		page.WaitText("buckets in this page")
	})
}

// A program that does not come, or ends, is told of. The page tries again, and goes on.
func TestAProgramThatDoesNotCome(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := startFiles(t)
		page := p.in(in, browser.Look{})
		browser.JS[any](page, `new BroadcastChannel("test").postMessage({ method: "end" })`)
		page.Wait("the page says that it does not know", `!document.querySelector("#banner").hidden`)
		page.Wait("it goes on", `document.querySelector("#banner").hidden && `+number+` === 10`)
		page.Click("button", "Send 1")
		page.Wait("and works", `document.querySelector("#said").textContent.startsWith("200")`)
	})
}

// A decision is drawn as soon as with a server. The two take turns, so that both meet the same load.
func TestADecisionIsDrawnAsSoonAsWithAServer(t *testing.T) {
	p, f := start(t), startFiles(t)
	pages := map[string]*browser.Page{"server": p.full(browser.Chromium, browser.Look{}), "files": f.full(browser.Chromium, browser.Look{})}
	took := map[string][]float64{}
	for range 9 {
		for name, page := range pages {
			took[name] = append(took[name], browser.JS[float64](page, `new Promise(done => {
				const from = performance.now(), drawn = new MutationObserver(() => { drawn.disconnect(); done(performance.now() - from); });
				drawn.observe(document.querySelector("#picture .number"), { childList: true, characterData: true, subtree: true });
				document.querySelector("#one").click();
			})`))
		}
	}
	for _, list := range took {
		slices.Sort(list)
	}
	t.Logf("from the click to the picture, in ms: %.0f with a server, %.0f in the page", took["server"], took["files"])
	if server, files := took["server"][4], took["files"][4]; files > 1.5*server {
		t.Errorf("the median is %.0f ms with a server, and %.0f ms in the page", server, files)
	}
}
