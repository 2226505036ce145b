package main

import (
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// picture is what the calculator says in its headline.
const picture = `document.querySelector("#says").textContent`

// A reader types a limit and draws a traffic. The library's program decides, and
// the link opens the same picture.
func TestCalculator(t *testing.T) {
	inBrowsers(t, TestCalculator, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		page := in.Open(t, h.URL+below+"calculator/", browser.Look{})
		page.Wait("the first picture is there", `/^Of \d+ requests, \d+ are allowed and \d+ denied\.$/.test(`+picture+`)`)

		page.Click("button", "Clear")
		page.Wait("nothing is drawn", picture+` === "No requests yet."`)
		page.Focus("slider", "Requests in a step")
		page.Key("ArrowRight", "PageUp", "PageUp", "PageUp")
		page.Wait("keys draw 30 requests at once, of which the burst and 1 that comes back pass", picture+` === "Of 30 requests, 20 are allowed and 10 denied."`)
		page.Wait("the slider tells what happens to them", `document.querySelector("#draw").getAttribute("aria-valuetext").includes("30 requests, 20 allowed, 10 denied")`)
		page.Wait("the worst window is that of MaxIn", `document.querySelector("#most").textContent === "At most 80 requests in any 1 min."`)
		page.Wait("the program is written", `document.querySelector("#go").textContent.includes("core.PerMinute(60).WithBurst(20)")`)
		page.Wait("the denied response says when to come back", `[...document.querySelectorAll("#fields pre")].at(-1).textContent.includes("Retry-After: 1\n")`)

		page.Fill("textbox", "Limits", "60/min burst 5")
		page.Wait("the picture is that of the new limit", picture+`.includes("5 are allowed and 25 denied")`)
		page.Wait("the link has the limit", `decodeURIComponent(location.hash).includes("burst+5") || decodeURIComponent(location.hash).includes("burst 5")`)
		link := browser.JS[string](page, `location.hash`)
		said := browser.JS[string](page, picture)
		other := in.Open(t, h.URL+below+"calculator/"+link, browser.Look{})
		other.Wait("the link opens the same picture", picture+` === $[0]`, said)

		page.Drag("slider", "Requests in a step", 120, 0)
		page.Wait("the pointer draws one height over some steps", `document.querySelector("#text").value.split(" ").filter(n => n > 8).length >= 5`)
		page.Wait("the picture is that of the drawing", `document.querySelectorAll("#traffic .denied").length >= 4`)
		page.Click("button", "two limits")
		page.Wait("each limit has its tokens, and its bound", `document.querySelectorAll("#left .line").length === 2 && document.querySelectorAll("#bounds tbody tr").length === 2 && document.querySelector("#yaml").textContent.includes("- 300/min burst 100")`)

		write := func(traffic string) {
			browser.JS[any](page, `(() => { const text = document.querySelector("#text"); text.value = $[0]; text.dispatchEvent(new Event("input")); })()`, traffic)
		}
		write("1772409600\n1772409600\n1772409601")
		page.Wait("times in seconds are read as times", `document.querySelector("#remarks").textContent.includes("The traffic was read as 3 times.")`)
		page.Wait("the link has them", `location.hash.includes("times=1772409600")`)
		other = in.Open(t, h.URL+below+"calculator/"+browser.JS[string](page, `location.hash`), browser.Look{})
		other.Wait("the link opens the same times", `document.querySelector("#remarks").textContent.includes("The traffic was read as 3 times.")`)
		write("[3, 2]")
		page.Wait("a list of JSON has counts", `document.querySelector("#remarks").textContent.includes("spread evenly")`)
		page.Wait("the link has them", `location.hash.includes("counts=3.2")`)
		write("1,5\n1.5")
		page.Wait("what is neither is named", `document.querySelector("#text-wrong").textContent.includes('"1.5"')`)
		write("1 2")

		page.Fill("textbox", "Limits", "60/mn burst 5")
		page.Wait("the mistake is the library's", `document.querySelector("#limits-wrong").textContent.includes('"mn" must be a time') && document.querySelector("#limits-wrong a").textContent === "RL104" && document.querySelector("#limits").getAttribute("aria-invalid") === "true"`)
		for _, v := range accessible(t, page) {
			t.Errorf("with a mistake: %s", v)
		}
	})
}

// shots keeps pictures of a page in the usual sizes, for people to look at.
func shots(t *testing.T, in *browser.Browser, url, name string, ready func(*browser.Page)) {
	t.Helper()
	for look, of := range map[string]browser.Look{
		"wide": {Width: 1280, Height: 1500}, "wide-dark": {Width: 1280, Height: 1500, Dark: true}, "phone": {Width: 360, Height: 2600}, "phone-dark": {Width: 320, Height: 2600, Dark: true},
	} {
		if look != "phone-dark" && !soak.On() {
			continue
		}
		page := in.Open(t, url, of)
		ready(page)
		for _, v := range accessible(t, page) {
			t.Errorf("%s: %s", look, v)
		}
		if wide := browser.JS[int](page, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
			t.Errorf("%s: the page is %d pixels wider than the window", look, wide)
		}
		page.Save(strings.Join([]string{name, look, in.Name}, "-"))
	}
}

func TestCalculatorIsAccessible(t *testing.T) {
	inBrowsers(t, TestCalculatorIsAccessible, func(t *testing.T, in *browser.Browser) {
		h := serve(t)
		shots(t, in, h.URL+below+"calculator/", "calculator", func(page *browser.Page) {
			page.Wait("the first picture is there", picture+`.startsWith("Of")`)
		})
	})
}
