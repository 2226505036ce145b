package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
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

// command is the program ratelimit.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ratelimit")
	if err != nil {
		return "", err
	}
	built := filepath.Join(dir, "ratelimit")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", built, ".")
	build.Dir = filepath.Join(root, "cmd/ratelimit")
	build.Env = append(os.Environ(), "GOWORK=off")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the command can't be built: %w\n%s", err, said)
	}
	return built, nil
})

// ratelimit runs the command, and returns what it prints. Its exit code is not
// looked at: logs that end early have a report too.
func ratelimit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	program, err := command()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, args...)
	c.Dir = dir
	said, err := c.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(said)
}

// saved reads a log in a new program of the page, replays it and returns what
// the command would write.
const saved = `(async () => {
	const {Program} = await import(new URL("../program.js", location.href)), program = new Program("replay/replay.wasm");
	const file = new File([await (await fetch($[0])).blob()], $[1]);
	await program.ask("read", $[2], {file});
	await program.ask("play", {limit: $[3]});
	return program.ask("save");
})()`

// The page's figures are those of the command for the same file, to the last
// one, and so is its page.
func TestFiguresAreThoseOfTheCommand(t *testing.T) {
	inBrowsers(t, TestFiguresAreThoseOfTheCommand, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		page := in.Open(t, h.URL+below+"replay/", browser.Look{})
		sample := ratelimit(t, ".", "replay", "-sample")
		keyed := "when;api_key;path\n"
		for i := range 900 {
			keyed += fmt.Sprintf("2026-03-29T0%d:%02d:%02d.%d;k%d;/%c\n", i/400, i/10%60, i*7%60, i%10, i*i%7, 'a'+i%3)
		}
		for _, c := range []struct {
			name, log, limit string
			options          map[string]string
			flags            []string
		}{
			{"sample.log", sample, "60/min burst 20", nil, nil},
			{"sample.log.gz", string(zipped(t, sample)), "300/day aligned", nil, nil},
			{"cut.gz", string(zipped(t, sample)[:9000]), "5/15min stepped", nil, nil},
			{
				"keyed.csv", keyed, "40/h burst 4",
				map[string]string{"key": "header:x-api-key=api_key", "time": "when", "zone": "Europe/Berlin", "skip": "path=/b", "format": "csv"},
				[]string{"-key", "header:x-api-key=api_key", "-field", "time=when", "-zone", "Europe/Berlin", "-skip", "path=/b", "-format", "csv"},
			},
		} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			h.put(t, "logs/"+c.name, c.log)
			args := append(append([]string{"replay", "-limit", c.limit, "-html", "report.html", "-json"}, c.flags...), c.name)
			object := ratelimit(t, dir, args...)
			html, err := os.ReadFile(filepath.Join(dir, "report.html"))
			if err != nil {
				t.Fatal(err)
			}
			got := browser.JS[map[string]string](page, saved, below+"logs/"+c.name, c.name, c.options, c.limit)
			if got["json"] != object {
				t.Errorf("%s: the page has\n%s\nthe command has\n%s", c.name, got["json"], object)
			}
			if got["html"] != string(html) {
				t.Errorf("%s: the page saves another report than -html writes", c.name)
			}
		}
	})
}

// A million lines are read by parts, with progress, and can be cancelled.
func TestAMillionLines(t *testing.T) {
	soak.Only(t, TestFiguresAreThoseOfTheCommand)
	inBrowsers(t, TestFiguresAreThoseOfTheCommand, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		day, n := strings.Split(strings.TrimSpace(ratelimit(t, ".", "replay", "-sample")), "\n"), 0
		var log strings.Builder
		for date := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC); n < 1_000_000; date = date.AddDate(0, 0, 1) {
			for _, line := range day[:min(len(day), 1_000_000-n)] {
				log.WriteString(strings.Replace(line, "02/Mar/2026", date.Format("02/Jan/2006"), 1) + "\n")
				n++
			}
		}
		h.put(t, "logs/million.log", log.String())
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "million.log"), []byte(log.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		want := ratelimit(t, dir, "replay", "-limit", "60/min burst 20", "-html", "report.html", "million.log")
		native := time.Since(began)
		denied := regexp.MustCompile(`denied +([0-9,]+) \(`).FindStringSubmatch(want)[1]

		page := in.Open(t, h.URL+below+"replay/", browser.Look{})
		choose := `(async () => {
			const list = new DataTransfer(), input = document.querySelector("#file");
			list.items.add(window.kept ??= new File([await (await fetch($[0])).blob()], "million.log"));
			input.files = list.files;
			window.began = performance.now();
			input.dispatchEvent(new Event("change", {bubbles: true}));
		})()`
		browser.JS[any](page, choose, below+"logs/million.log")
		page.Wait("the page says how far it is", `/Reading million.log: [1-9]/.test(document.querySelector("#doing").textContent) && document.querySelector("#progress").value > 0`)
		page.Click("button", "Cancel")
		page.Wait("reading ends", `document.querySelector("#under").hidden && document.querySelector("#wrong").textContent === "Cancelled: million.log was not read."`)

		browser.JS[any](page, choose, below+"logs/million.log")
		page.Wait("the figures are those of the command", reported+`.includes($[0]) && (window.first ??= performance.now() - began)`, "denies "+denied+" of 1,000,000 requests")
		page.Wait("the smallest changes are found", `document.querySelector("#under").hidden && `+reported+`.includes("The smallest changes") && (window.all ??= performance.now() - began)`)
		t.Logf("the command took %v; in %s what is denied is there after %.1f s, and all after %.1f s", native, in.Name, browser.JS[float64](page, "first")/1000, browser.JS[float64](page, "all")/1000)
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
