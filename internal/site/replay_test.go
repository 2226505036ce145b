package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// choose gives the page's file input a file, as its dialog does.
func choose(page *browser.Page, name string, content []byte) {
	browser.JS[any](page, `(() => {
		const list = new DataTransfer(), input = document.querySelector("#file");
		list.items.add(new File([Uint8Array.from(atob($[1]), c => c.charCodeAt(0))], $[0]));
		input.files = list.files;
		input.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, name, base64.StdEncoding.EncodeToString(content))
}

// reported is the text of the report.
const reported = `document.querySelector("#report").shadowRoot.textContent`

// lines are n requests of a client in a second.
func lines(n int) string {
	return strings.Repeat("192.0.2.1 - - [02/Mar/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1 \"-\" \"a\"\n", n)
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A log is read and replayed, sliders replay it at once, and whatever is wrong
// with a file is said.
func TestReplay(t *testing.T) {
	inBrowsers(t, TestReplay, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		page := in.Open(t, h.URL+below+"replay/", browser.Look{})
		page.Click("button", "Try a day")
		page.Wait("the sample is replayed", reported+`.includes("60/min burst 20 denies 71 of 1,349 requests, all from one client.")`)
		page.Wait("the smallest changes are found", reported+`.includes("rate and burst × 1.9: 114/min burst 38")`)
		page.Wait("the report is drawn", `document.querySelector("#report").shadowRoot.querySelector(".scale span:last-child").style.bottom === "100%"`)
		page.Focus("slider", "Burst")
		page.Key("End")
		page.Wait("a slider replays with another burst", `document.querySelector("#try").value === "60/min burst 1000" && `+reported+`.includes("burst 1000 denies none of")`)
		page.Key("Home")
		page.Wait("and with the smallest", `document.querySelector("#try").value === "60/min burst 1" && document.querySelector("#burst-says").textContent === "1" && /burst 1 denies \d/.test(`+reported+`)`)
		page.Fill("textbox", "Limit", "60/mn")
		page.Wait("the mistake is the library's", `document.querySelector("#try-wrong").textContent.includes('"mn" must be a time')`)
		page.Fill("textbox", "Limit", "3/min")

		whole := zipped(t, lines(2000))
		for _, c := range []struct {
			name    string
			content []byte
			want    string // in what is wrong, or in the report
		}{
			{"plain.log", []byte(lines(5)), "denies 2 of 5 requests"},
			{"small.log.gz", zipped(t, lines(5)), "denies 2 of 5 requests"},
			{"empty.log", nil, "no line is a request"},
			{"empty.log.gz", nil, "no line is a request"},
			{"nothing.gz", zipped(t, ""), "no line is a request"},
			{"short.gz", whole[:3], "short.gz: gzip: unexpected EOF"},
			{"cut.gz", whole[:len(whole)-20], "the rest of a file can't be read: cut.gz: line"},
			{"picture.png", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + strings.Repeat("\x00\xff", 5000)), "the first of 3 lines that can't be used is picture.png:1: the format is not clear"},
			{"zeros", make([]byte, 3<<20), "zeros:1: the line is longer than 1048576 bytes"},
			{"two.log", []byte(lines(4) + `{"time": "2026-03-02T10:00:01Z", "ip": "192.0.2.1"}` + "\n"), "1 line can't be read; the first is two.log:5: the line is not in the combined format"},
			{"<img src=x onerror=alert(1)>.log", []byte(lines(4)), "Replayed from <img src=x onerror=alert(1)>.log"},
		} {
			choose(page, c.name, c.content)
			page.Wait(fmt.Sprintf("%s: the page says %q", c.name, c.want), `document.querySelector("#under").hidden && (document.querySelector("#wrong").textContent + `+reported+`).includes($[0])`, c.want)
		}
	})
}

// The page's policy holds in its worker: nothing can be sent elsewhere.
func TestNothingLeavesTheMachine(t *testing.T) {
	inBrowsers(t, TestNothingLeavesTheMachine, func(t *testing.T, in *browser.Browser) {
		var asked atomic.Int64
		elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Access-Control-Allow-Origin", "*")
		}))
		t.Cleanup(elsewhere.Close)
		h := serve(t)
		page := in.Open(t, h.URL+below+"replay/", browser.Look{})
		page.Click("button", "Try a day")
		page.Wait("the sample is replayed", reported+`.includes("denies 71 of")`)
		said := browser.JS[string](page, `new Promise(resolve => {
			const source = "fetch(" + JSON.stringify($[0]) + ").then(() => postMessage('sent'), () => postMessage('refused'))";
			const worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
			worker.onmessage = e => resolve(e.data);
			worker.onerror = e => resolve("error " + e.message);
		})`, elsewhere.URL)
		if said != "refused" || asked.Load() > 0 {
			t.Errorf("a worker as the page has it asks another host: %s, %d requests came", said, asked.Load())
		}
	})
}

func TestReplayIsAccessible(t *testing.T) {
	inBrowsers(t, TestReplayIsAccessible, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		shots(t, in, h.URL+below+"replay/", "replay", func(page *browser.Page) {
			page.Click("button", "Try a day")
			page.Wait("the smallest changes are found", reported+`.includes("114/min burst 38")`)
		})
	})
}
