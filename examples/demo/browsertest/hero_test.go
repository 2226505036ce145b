package browsertest

import (
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// outside are those of the elements that are not wholly in sight.
const outside = `$.filter(s => (r => r.top < 0 || r.bottom > innerHeight || r.left < 0 || r.right > innerWidth || r.width === 0)(document.querySelector(s).getBoundingClientRect()))`

// The first screen has the sentence, the bucket, the buttons, the strip, the answer and the code.
func TestTheFirstScreenFits(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.played(in, browser.Look{Width: 1366, Height: 650})
		page.Save("first-screen-" + in.Name)
		if got := page.Text("heading", "tokens. Every request takes"); got != "Ten tokens. Every request takes one. One comes back each hour." {
			t.Errorf("the sentence is %q", got)
		}
		for _, look := range []browser.Look{{Width: 1366, Height: 650}, {Width: 1280, Height: 720}, {Width: 1366, Height: 768}, {Width: 1024, Height: 768}} {
			page.Show(look)
			parts := []any{"h1", "#picture", "#burst", "#one", "#strip", "#status", "#fields"}
			if look.Width > 1100 {
				parts = append(parts, "#code", "#body")
			}
			if list := browser.JS[[]string](page, outside, parts...); len(list) > 0 {
				t.Errorf("at %d×%d these are not wholly in sight: %q", look.Width, look.Height, list)
			}
		}
	})
}

// One burst plays by itself when the page is opened: ten are allowed, five denied, and the denial says why.
func TestABurstPlaysByItself(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		p.set(hour)
		page := p.in(in, browser.Look{})
		page.Wait("the tag says why", `/^denied: 0 tokens left,retry in \d+(\.\d+)? (s|min|h)$/.test(document.querySelector("#picture .tag:not([visibility])").textContent)`)
		page.WaitText("429 Too Many Requests")
		if p.files != nil {
			return // another page has a demo of its own
		}
		page.Load()
		page.Wait("the tag is still true", `/^denied: 0 tokens left/.test(document.querySelector("#picture .tag:not([visibility])").textContent)`)
		page.Wait("the last frame is there after a reload", number+` === 0 && document.querySelectorAll("#rows tr").length === 15`)
		other := p.in(in, browser.Look{})
		other.Wait("another tab shows the same", number+` === 0`)
		if n := len(p.log("drain")); n != 15 {
			t.Errorf("%d requests were sent: a burst plays once", n)
		}
	})
}

// The answer stands row by row, with what each field means. A field marks what it is about.
func TestTheAnswerIsExplained(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.full(in, browser.Look{})
		p.set(map[string]any{"interval_ms": 1000})
		page.Fill("combobox", "Framework", "chi")
		page.Click("button", "Send 15 at once")
		page.Wait("each field has its meaning", `document.querySelector("#status").textContent === "429 Too Many Requests from " + $[0] &&
			[["Retry-After: 1", "wait 1 s"], ["X-RateLimit-Limit: 10", "the bucket holds 10"], ["X-RateLimit-Remaining: 0", "0 tokens left"], ['RateLimit-Policy: "demo";q=10;w=10', "10 tokens each 10 s"]]
			.every(([field, means]) => [...document.querySelectorAll("dt")].some(e => e.textContent === field && e.nextElementSibling.textContent === means))`, p.through("chi"))
		page.Wait("the problem body is there", `/quota-exceeded/.test(document.querySelector("#body").textContent)`)
		for field, about := range map[string]string{"Retry-After": "ring", "X-RateLimit-Limit": "rim", "X-RateLimit-Remaining": "tokens"} {
			page.Hover("button", field)
			page.Wait(field+" is marked", `document.querySelector("#picture").dataset.about === $[0]`, about)
		}
		page.MoveAway()
		page.Focus("button", "Retry-After")
		page.Wait("the focus marks it too", `document.querySelector("#picture").dataset.about === "ring"`)
		p.set(map[string]any{"cost": 20})
		page.Click("button", "Send 1")
		page.Wait("what costs more than the bucket holds is never let in", `/never: it costs more/.test(document.querySelector("#picture .tag:not([visibility])")?.textContent)`)
		page.Wait("the field says the same as the picture", `(([left]) => [...document.querySelectorAll("dd")].some(e => e.textContent.startsWith(left) && e.textContent.endsWith(" left, never: it costs more")))(document.querySelector("#picture .tag").textContent.match(/\d+/))`)
		page.Wait("no meaning has a gap", `!/undefined/.test(document.querySelector("#fields").textContent)`)
	})
}

// Numbers are turned in the sentence and in the picture, by dragging, by keys and by typing. The line of code lights up.
func TestNumbersAreTurned(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.full(in, browser.Look{Width: 1366, Height: 650})
		lit := func(line string) {
			t.Helper()
			page.Wait("the code is "+line, `document.querySelector("#code").textContent.startsWith($[0]) && document.querySelector("#code mark")`, line)
		}
		page.Click("button", "Send 1")
		page.Wait("one is taken", number+` === 9`)
		page.Focus("slider", "Capacity")
		page.Key("ArrowUp")
		page.Wait("the rim says what stays", `document.querySelector("#picture").textContent.includes("10 → 11: 1 token taken stays taken")`)
		page.Wait("eleven", `/^Eleven|^11/.test(document.querySelector("h1").textContent)`)
		lit("bucket := core.Per(1, time.Hour).WithBurst(11)")
		page.Wait("the bucket has a place more", `document.querySelectorAll("#picture .slot").length === 11`)
		page.Key("8")
		lit("bucket := core.Per(1, time.Hour).WithBurst(8)")
		page.Focus("slider", "Tap")
		page.Key("ArrowUp")
		lit("bucket := core.Per(2, time.Hour).WithBurst(8)")
		page.Focus("slider", "Time in which")
		page.Key("Home")
		lit("bucket := core.Per(2, 500*time.Millisecond).WithBurst(8)")
		page.Wait("the rim is where it stays", `document.querySelectorAll("#picture .slot").length === 8`)
		page.Drag("slider", "Rim", 0, -150)
		page.Wait("the rim is higher", `Number(document.querySelector("#rim").getAttribute("aria-valuenow")) > 14 && document.querySelectorAll("#picture .slot").length > 14`)
		page.Drag("slider", "Cost", 26, 0)
		page.Wait("a request takes three", `/takes three\./.test(document.querySelector("h1").textContent)`)
		page.Focus("slider", "Capacity")
		page.Key("6", "0")
		page.Wait("water, as more than 20 can't be counted", `document.querySelectorAll("#picture .slot").length === 0 && document.querySelector("#picture .water").getAttribute("d")`)
	})
}

// What the limiter refuses is turned back.
func TestARefusedNumberIsTurnedBack(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		page := start(t).full(in, browser.Look{Width: 1366, Height: 650})
		page.Focus("slider", "Time in which")
		page.Key("End")
		for _, typed := range [][2]string{{"Tokens that come back", ".001"}, {"Capacity", "1000000"}} {
			page.Focus("slider", typed[0])
			page.Key(strings.Split(typed[1], "")...) // in one go: what is typed slowly is several numbers
		}
		page.Wait("what the limiter refuses is turned back, and it says why", `/too slow/.test(document.querySelector("#v-drain").textContent) && Number(document.querySelector("#rim").getAttribute("aria-valuenow")) < 1000000`)
	})
}

// A framework is chosen, for the requests and for the code, and a whole program is copied.
func TestTheProgramIsCopied(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.full(in, browser.Look{})
		page.Fill("combobox", "Framework", "fiber")
		page.Wait("the code is for fiber", `/fiberlimit\.PerIP/.test(document.querySelector("#code").textContent)`)
		browser.JS[any](page, `void Object.defineProperty(navigator, "clipboard", {value: {writeText: async text => { window.testCopied = text }}})`)
		page.Click("button", "Copy the program")
		page.Wait("it is copied", `/^package main/.test(window.testCopied) && /fiber\.New\(\)/.test(testCopied)`)
		page.Click("button", "Send 1")
		page.WaitText("200 OK from " + p.through("fiber"))
		page.Fill("combobox", "Framework", "")
		for range 2 { // each in turn: the code is of the one that answered
			page.Click("button", "Send 1")
			page.Wait("the code is of the framework that answered", `document.querySelector("#status").textContent.endsWith(" from " + document.querySelector("#h-go").textContent.match(/for (.*)/)[1])`)
		}
	})
}

// A screen reader hears each single answer, and one sentence of a burst.
func TestWhatIsSaidAloud(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.full(in, browser.Look{})
		said := func(what string) {
			t.Helper()
			page.Wait("it is said that "+what, `document.querySelector("#said").textContent === $[0]`, what)
		}
		page.Click("button", "Send 1")
		said("200: allowed, 9 tokens left.")
		browser.JS[any](page, `(() => { window.testSaid = []; new MutationObserver(() => testSaid.push(document.querySelector("#said").textContent)).observe(document.querySelector("#said"), {childList: true, characterData: true, subtree: true}) })()`)
		page.Click("button", "Send 15 at once")
		said("15 at once: 9 allowed, 6 denied. There were 9 tokens, and a request takes 1.")
		if all := browser.JS[[]string](page, `testSaid`); len(all) != 1 {
			t.Errorf("of a burst is said %q", all)
		}
		page.Click("button", "Send 1")
		page.Wait("a denial is said", `/^429: denied, 0 tokens left, retry in .*\.$/.test(document.querySelector("#said").textContent)`)
	})
}

// The first picture is there soon on a phone's slow network, without a server before the program.
func TestTheFirstPictureComesSoon(t *testing.T) {
	p, f := start(t), startFiles(t)
	f.files.program = make(chan struct{}) // which does not come
	look := browser.Phone
	look.SlowNetwork = true
	for _, p := range []*process{p, f} {
		page := browser.Chromium.Open(t, p.url, look)
		page.Wait("the bucket is drawn", `document.querySelector("#picture .number").textContent !== "" && document.querySelectorAll("#picture .slot").length === 10`)
		sizes := browser.JS[[]string](page, `performance.getEntriesByType("resource").map(e => new URL(e.name).pathname).filter(p => p !== "/browsertest.js")`)
		if got := strings.Join(sizes, " "); p.files == nil && (strings.Count(got, ".js") != 1 || strings.Count(got, ".css") != 0) {
			t.Errorf("it asks for %s: one script is enough", got)
		}
		ms := browser.JS[float64](page, `performance.getEntriesByType("paint").find(e => e.name === "first-contentful-paint")?.startTime ?? 0`)
		t.Logf("%s: first picture after %.0f ms", p.url, ms)
	}
}
