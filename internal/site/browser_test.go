package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	browser.Close()
	os.Exit(code)
}

// site is the site as scripts/site builds it, once for all tests.
var site = sync.OnceValues(build)

// below is where the tests' host has the site.
const below = "/some/where/"

// host is a plain file server, which has the site below a path.
type host struct {
	*httptest.Server

	dir     string
	mu      sync.Mutex
	asked   []string
	missing []string // what was asked for, and is not there
}

// serve serves the site until the test ends, with a worker that keeps nothing:
// it would fetch all files for each test.
func serve(t *testing.T) *host {
	t.Helper()
	h := serveKept(t)
	h.put(t, worker, "")
	return h
}

// serveKept is serve, with the site's worker.
func serveKept(t *testing.T) *host {
	t.Helper()
	out, err := site()
	if err != nil {
		t.Fatal(err)
	}
	return serveFiles(t, out)
}

// serveFiles writes a site into a folder and serves it until the test ends. The
// test fails if a browser asks for a file that is not there.
func serveFiles(t *testing.T, out *output) *host {
	t.Helper()
	dir := t.TempDir()
	if err := out.write(filepath.Join(dir, filepath.FromSlash(below))); err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(dir))
	h := &host{dir: filepath.Join(dir, filepath.FromSlash(below))}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(r.URL.Path)))
		h.mu.Lock()
		h.asked = append(h.asked, r.URL.Path)
		if err != nil {
			h.missing = append(h.missing, r.URL.Path)
		}
		h.mu.Unlock()
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.Close()
		if len(h.missing) > 0 {
			t.Errorf("the page asks for files that are not there: %q", h.missing)
		}
	})
	return h
}

// put adds a file to what the host has.
func (h *host) put(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(h.dir, filepath.FromSlash(name))
	later := time.Now().Add(time.Minute) // file servers tell versions by the second
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600), os.Chtimes(file, later, later)); err != nil {
		t.Fatal(err)
	}
}

// inBrowsers runs a test in chromium, and by ./scripts/soak in all browsers.
// quick is the test.
func inBrowsers(t *testing.T, quick func(*testing.T), test func(t *testing.T, in *browser.Browser)) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		if in != browser.Chromium {
			soak.Only(t, quick)
		}
		test(t, in)
	})
}

// ofEachKind reports whether a page is one of those of each kind that tests look
// at where they don't look at all.
func ofEachKind(p page) bool { return p.group == "" || p.Path == "docs/choosing-limits.html" }

// violations are the rules of accessibility that the page breaks, with the
// elements.
const violations = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + (n.failureSummary || "").slice(0, 300)).slice(0, 3).join("; ")))`

func TestPagesAreAccessible(t *testing.T) {
	axe, err := os.ReadFile(filepath.Join(root, "examples/demo/browsertest/testdata/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	inBrowsers(t, TestPagesAreAccessible, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		out, err := site()
		if err != nil {
			t.Fatal(err)
		}
		for name, look := range map[string]browser.Look{"light": {}, "dark": {Dark: true}, "phone": {Width: 360, Height: 780}} {
			t.Run(name, func(t *testing.T) {
				if name != "light" {
					soak.Only(t, TestPagesAreAccessible)
				}
				page := in.Open(t, h.URL+below, look)
				for _, p := range out.pages {
					all := soak.On() && name == "phone"
					if !all && !ofEachKind(p) {
						continue
					}
					page.Go(below + p.Path)
					if wide := browser.JS[int](page, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
						t.Errorf("%s: is %d pixels wider than the window", p.Path, wide)
					}
					if in != browser.Chromium && !ofEachKind(p) {
						continue
					}
					browser.JS[any](page, `(() => { `+string(axe)+` })()`)
					for _, v := range browser.JS[[]string](page, violations) {
						t.Errorf("%s: %s", p.Path, v)
					}
					page.Save(strings.NewReplacer("/", "-", ".html", "").Replace(p.Path) + "-" + name)
				}
			})
		}
	})
}

// results are the links that the search shows.
const results = `[...document.querySelectorAll("#found a")].map(a => a.getAttribute("href").replace(location.origin, ""))`

func TestSearch(t *testing.T) {
	inBrowsers(t, TestSearch, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		page := in.Open(t, h.URL+below+"docs/headers.html", browser.Look{})
		page.Key("/")
		page.Wait("/ leads to the search", `document.activeElement.id === "search"`)
		page.Key(strings.Split("any window", "")...)
		page.Wait("the first result is the section of that name", results+`[0] === $[0]`, below+"docs/choosing-limits.html#at-most-n-in-any-window")
		page.Wait("the words are marked", `[...document.querySelectorAll("#found a:first-child mark")].map(m => m.textContent).join().startsWith("any,window")`)
		page.Save("search-" + in.Name)
		page.Key("ArrowDown")
		page.Wait("the second one is chosen", `document.querySelector("#found [aria-selected=true]").id === "found-1" && document.activeElement.getAttribute("aria-activedescendant") === "found-1"`)
		page.Key("ArrowUp", "Enter")
		page.Wait("Enter leads there", `location.pathname + location.hash === $[0]`, below+"docs/choosing-limits.html#at-most-n-in-any-window")

		for _, c := range []struct{ name, words, want string }{
			{"the begin of words, in any order and case", "TRUSTP PROX", "docs/keys-and-trust.html"},
			{"a word within a name of Go", "burst withb", "docs/choosing-limits.html"},
			{"a code of an error", "rl309", "docs/errors.html"},
		} {
			page.Focus("combobox", "Search")
			browser.JS[any](page, `(e => { e.value = $[0]; e.dispatchEvent(new Event("input", {bubbles: true})) })(document.querySelector("#search"))`, c.words)
			page.Wait("the search finds "+c.name, results+`.some(a => a.startsWith($[0]))`, below+c.want)
		}
		browser.JS[any](page, `(e => { e.value = $[0]; e.dispatchEvent(new Event("input", {bubbles: true})) })(document.querySelector("#search"))`, "window nosuchword")
		page.Wait("all words must be there", `document.querySelector("#found").textContent.includes("No section") && document.querySelector("#found-says").textContent === "Nothing found"`)
		page.Key("Escape")
		page.Wait("Escape closes the list", `document.querySelector("#found").hidden`)
	})
}

// kept reports whether the page is one that a worker has kept.
const kept = `await navigator.serviceWorker.getRegistration().then(r => r?.active?.state === "activated" && navigator.serviceWorker.controller !== null)`

func TestOffline(t *testing.T) {
	inBrowsers(t, TestOffline, func(t *testing.T, in *browser.Browser) {
		h := serveKept(t)
		page := in.Open(t, h.URL+below, browser.Look{})
		if !browser.JS[bool](page, `"serviceWorker" in navigator`) {
			t.Skip("this browser has no service workers")
		}
		page.Wait("the site is kept", kept)
		h.Close()
		for _, path := range []string{"", "index.html", "docs/", "docs/choosing-limits.html", "docs/plans#an-upgrade", "start.html?from=here"} {
			page.Go(below + path)
			page.Wait(path+" is there without its server, with its style and pictures", `document.querySelector("h1") && getComputedStyle(document.querySelector(".top")).display === "flex" && [...document.images].every(i => i.complete && i.naturalWidth > 0)`)
		}
		page.Go(below + "demo/")
		page.Wait("the demo decides without a network", `document.querySelectorAll("#rows tr").length === 15 && /buckets in this page/.test(document.querySelector("#place").textContent)`)
		page.Go(below + "calculator/")
		page.Wait("the calculator computes without a network", picture+`.startsWith("Of ")`)
		page.Go(below + "replay/")
		page.Click("button", "Try a day")
		page.Wait("a log is replayed without a network", reported+`.includes("denies 71 of 1,349 requests")`)
		page.Key("/")
		page.Key(strings.Split("shadow", "")...)
		page.Wait("the search finds", results+`.length > 3`)
	})
}

// A reader without a mouse reaches what there is.
func TestKeyboard(t *testing.T) {
	inBrowsers(t, TestKeyboard, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		page := in.Open(t, h.URL+below+"docs/choosing-limits.html", browser.Look{})
		for _, next := range [][2]string{{"link", "Skip to the content"}, {"link", "Docs"}, {"combobox", "Search"}, {"link", "Benchmarks"}, {"link", "The rate: what a client may do for hours"}} {
			page.Reach(next[0], next[1])
		}
		page.Focus("link", "Skip to the content")
		page.Key("Enter")
		page.Wait("the content has the focus", `document.activeElement.id === "main" && location.hash === "#main"`)
	})
}
