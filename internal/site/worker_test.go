package main

import (
	"encoding/json"
	"errors"
	"html/template"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// The service worker keeps all files but itself, by what each of them has.
func TestTheWorkerKeepsEachFile(t *testing.T) {
	kept := func(content string) map[string]string {
		out := newOutput()
		out.files = map[string][]byte{"index.html": nil, "docs/index.html": nil, "docs/plans.html": nil, "demo/demo.wasm": []byte(content)}
		if err := out.addWorker(); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(out.files[worker]), "const files = ")
		list, _, _ := strings.Cut(rest, ";")
		var files map[string]string
		if err := json.Unmarshal([]byte(list), &files); err != nil {
			t.Fatalf("%v in %s", err, list)
		}
		return files
	}
	older, newer := kept("older"), kept("newer")
	if got, want := slices.Sorted(maps.Keys(older)), []string{"", "demo/demo.wasm", "docs/", "docs/plans.html"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q; want %q", got, want)
	}
	for name, hash := range older {
		if changed := newer[name] != hash; changed != (name == "demo/demo.wasm") {
			t.Errorf("%q changed: %v", name, changed)
		}
	}
}

// A later version of the site takes the place of the one that was kept, and only
// what has changed is fetched for it.
func TestTheWorkerKeepsTheLaterVersion(t *testing.T) {
	version := func(text string) *output {
		out := newOutput()
		for _, p := range []page{
			{Path: "index.html", Title: "T", Description: "D", Body: "<h1>first page</h1>"},
			{Path: "other.html", Title: "T", Description: "D", Body: template.HTML("<h1>" + text + "</h1>")},
		} {
			if err := out.addPage(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(out.addFile("large.wasm", []byte("large")), out.finish()); err != nil {
			t.Fatal(err)
		}
		return out
	}
	inBrowsers(t, TestTheWorkerKeepsTheLaterVersion, func(t *testing.T, in *browser.Browser) {
		h := serveFiles(t, version("older"))
		page := in.Open(t, h.URL+below, browser.Look{})
		page.Wait("the site is kept", kept)
		later := version("later")
		for _, name := range []string{"other.html", worker} {
			h.put(t, name, string(later.files[name]))
		}
		page.Load()
		browser.JS[any](page, `navigator.serviceWorker.getRegistration().then(r => r.update())`) // as the browser does by itself, some time
		page.Wait("the later version is kept", `await caches.open((await caches.keys())[0]).then(async cache => {
			const pages = (await cache.keys()).filter(r => r.url.includes("other.html"));
			return pages.length === 1 && (await (await cache.match(pages[0])).text()).includes("<h1>later</h1>");
		})`)
		h.Close()
		page.Go(below + "other.html")
		page.WaitText("later")
		times := 0
		for _, path := range h.asked {
			if path == below+"large.wasm" {
				times++
			}
		}
		if times != 1 {
			t.Errorf("the file that has not changed was fetched %d times", times)
		}
	})
}
