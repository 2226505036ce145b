package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

var frameworks = []string{"gin", "echo", "chi", "fiber", "http"}

func TestLoad(t *testing.T) {
	t.Parallel()
	p := start(t)
	hello := p.hello()
	b := p.open()
	if title := js[string](b, `document.title`); title == "" {
		t.Error("the page has no title")
	}
	if got := js[string](b, `document.querySelector("#store-text").textContent.trim()`); !strings.EqualFold(got, hello.Store.Text) {
		t.Errorf("the page says of the store %q, the server %q", got, hello.Store.Text)
	}
	for _, name := range []string{"capacity", "rate", "interval_ms", "mode", "cost", "headers", "key"} {
		if got, want := js[string](b, `document.querySelector($[0]).value`, field(name)), fmt.Sprint(hello.Settings[name]); got != want {
			t.Errorf("the form shows %s %q, the server has %q", name, got, want)
		}
	}
	if got, want := js[string](b, `[...document.querySelectorAll("#framework option")].map(o => o.value).sort().join()`), "chi,echo,fiber,gin,http,rotate"; got != want {
		t.Errorf("frameworks to choose from: %s", got)
	}
	for _, s := range hello.Scenarios {
		b.wait("the scenario "+s.ID+" is shown", `(e => e.textContent.includes($[1]) && e.querySelector(".expect").textContent.includes($[2]) &&
			document.querySelector("#verdict").dataset.ok === "" && e.querySelector("button.run").disabled === $[3] && e.textContent.includes($[4])
		)(document.querySelector("[data-scenario=\"" + $[0] + "\"]"))`, s.ID, s.Title, s.Expect, !s.Available, s.Reason)
	}
	b.wait("the bucket is full", tokens+` === 10`)
	for _, id := range []string{"#m-admitted", "#m-denied", "#m-errors"} {
		b.waitCount(id, 0)
	}
	if text := js[string](b, `document.querySelector("#countdown").textContent.trim()`); text != "" {
		t.Errorf("nothing waits, yet the countdown says %q", text)
	}
}

func TestSingleRequest(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	b.fill("#framework", "chi")
	b.click("#send")
	b.waitRows(200, 1)
	b.wait("the row names the framework", `document.querySelector("#log tr[data-status='200']").dataset.framework === "chi"`)
	b.waitCount("#m-admitted", 1)
	b.waitCount("#m-denied", 0)
	b.wait("the bucket has lost a token", tokens+` >= 9 && `+tokens+` < 10`)
	b.wait("the times of the decision are shown", `["#m-p50", "#m-p99"].every(id => /[1-9]/.test(document.querySelector(id).textContent))`)
	if n := p.all(); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
}

func TestBurstTo429(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := start(t)
		p.set(slow())
		page := p.in(in, browser.Look{})
		page.Fill("spinbutton", "Requests at once", "15")
		page.Click("button", "Send a burst")
		page.Wait("10 are allowed", `document.querySelectorAll("#log tr[data-status='200']").length === 10`)
		page.Wait("5 are denied", `document.querySelectorAll("#log tr[data-status='429']").length === 5`)
		page.Wait("the bucket is empty", tokens+` < 1`)
		page.WaitText("429 Too Many Requests")
		if !browser.JS[bool](page, `[...document.querySelectorAll("#log tr[data-status='429']")].every(r => /Retry-After: `+nearlyAnHour+`(?!\d)/.test(r.textContent))`) {
			t.Error("a denied request's row does not show its Retry-After")
		}
		page.Wait("the timeline is drawn", `(c => {
			const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, colours = new Set();
			for (let i = 0; i < d.length; i += 4) colours.add(d[i] << 16 | d[i+1] << 8 | d[i+2]);
			return colours.size > 2;
		})(document.querySelector("canvas#timeline"))`)
		page.Save("burst-" + in.Name)
	})
}

func TestReset(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	b.click("#burst")
	b.wait("something is denied", `document.querySelector("#log tr[data-status='429']")`)
	p.quiet()
	b.click("#reset")
	b.wait("the log is empty", `!document.querySelector("#log tr[data-id]")`)
	b.wait("the bucket is full", tokens+` === 10`)
	for _, id := range []string{"#m-admitted", "#m-denied", "#m-errors"} {
		b.waitCount(id, 0)
	}
	b.wait("nothing waits", `document.querySelector("#countdown").textContent.trim() === ""`)
	b.click("#send")
	b.waitRows(200, 1)
}

func TestEveryFrameworkDrainsTheSameBucket(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	for i, f := range frameworks {
		b.fill("#framework", f)
		b.click("#send")
		b.wait(f+" has served it", `document.querySelector("#log tr[data-status='200'][data-framework='" + $[0] + "']")`, f)
		b.wait("a token less is in the bucket", `Math.floor(`+tokens+`) === $[0]`, 9-i)
	}
	b.fill("#framework", "rotate")
	for i := range frameworks {
		b.click("#send")
		b.waitRows(200, 6+i)
	}
	if got := js[int](b, `new Set([...document.querySelectorAll("#log tr[data-id]")].slice(0, 5).map(r => r.dataset.framework)).size`); got != 5 {
		t.Errorf("in turn, 5 requests went to %d frameworks", got)
	}
	for _, f := range frameworks {
		b.fill("#framework", f)
		b.click("#send")
		b.wait(f+" has denied it", `document.querySelector("#log tr[data-status='429'][data-framework='" + $[0] + "']")`, f)
	}
	if n := js[int](b, `document.querySelectorAll(".bucket").length`); n != 1 {
		t.Errorf("%d buckets are shown, want 1", n)
	}
}

// What curl gets must stand in the log, letter by letter.
func TestLogShowsTheExactHeaders(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["capacity"] = 1
	b := p.open()
	for _, style := range []string{"default", "draft6", "none"} {
		s["headers"] = style
		for _, f := range frameworks {
			p.set(s)
			p.reset()
			b.wait("the log is empty", `!document.querySelector("#log tr[data-id]")`)
			for _, want := range []int{200, 429} {
				eventually(t, "the bucket is as it should be", func() bool { return want == 429 || p.hello().State[0].Limits[0].Tokens == 1 })
				status, header := p.ask(f, "ann")
				if status != want {
					t.Fatalf("%s answered %d, want %d", f, status, want)
				}
				row := fmt.Sprintf(`#log tr[data-status="%d"][data-framework="%s"]`, want, f)
				b.wait("the request stands in the log", `document.querySelector($[0])`, row)
				text := js[string](b, `document.querySelector($[0]).textContent`, row)
				limit := 0
				for _, line := range header {
					name, _, _ := strings.Cut(line, ":")
					switch name {
					case "Date", "Content-Length", "Connection", "Transfer-Encoding":
						continue
					}
					if strings.Contains(strings.ToLower(name), "ratelimit") {
						limit++
					}
					if !strings.Contains(text, line) {
						t.Errorf("%s, %d: %q is not in the log's %q", f, want, line, text)
					}
				}
				if (limit > 0) != (style != "none") {
					t.Errorf("%s, headers %s: got %d rate-limit fields", f, style, limit)
				}
			}
		}
	}
}

func TestEachUserHasABucket(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["key"] = "user"
	p.set(s)
	b := p.open()
	b.wait("two buckets are shown", `document.querySelectorAll(".bucket").length === 2`)
	level := `Number([...document.querySelectorAll(".bucket")].find(e => e.dataset.key.endsWith($[0])).querySelector(".level").dataset.tokens)`
	b.fill("#user", "ann")
	b.fill("#burst-n", "12")
	b.click("#burst")
	b.waitRows(429, 2)
	b.wait("ann's bucket is empty", level+` < 1`, "ann")
	b.fill("#user", "bob")
	b.click("#send")
	b.waitRows(200, 11)
	b.wait("bob's bucket has 9 left", `Math.floor(`+level+`) === 9`, "bob")
}

// A page that comes later shows what was, and each request once.
func TestEarlierRequests(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	for i := range 15 {
		p.ask(frameworks[i%5], "ann")
	}
	b := p.open()
	b.waitRows(200, 10)
	b.waitRows(429, 5)
	b.click("#send")
	b.waitRows(429, 6)
	b.waitCount("#m-denied", 6)
	b.load()
	b.waitRows(429, 6)
	if n := js[int](b, `document.querySelectorAll("#log tr[data-id]").length`); n != 16 {
		t.Errorf("%d requests are in the log, want 16", n)
	}
}

// Whoever sends requests must not be able to write into the page.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["key"] = "user"
	p.set(s)
	b := p.open()
	const name = `<img src=x onerror=document.title="broken">`
	p.ask("gin", name)
	b.waitRows(200, 1)
	b.wait("the bucket's name is shown as it is", `[...document.querySelectorAll(".bucket")].some(e => e.textContent.includes($[0]))`, name)
	if js[bool](b, `document.title === "broken" || !!document.querySelector("img[src=x]")`) {
		t.Error("a user's name became a part of the page")
	}
}
