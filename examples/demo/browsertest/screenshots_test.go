package browsertest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

var (
	screenshots = flag.String("screenshots", "", "a directory for screenshots of each state of the page")
	states      = flag.String("states", "", "which of these states; by default all")
	sizes       = flag.String("sizes", "1440x900 1024x650 768x1024 360x740 320x640", "of the screenshots")
)

// looks are those of the screenshots: each size, light and dark.
func looks(t *testing.T) (list []browser.Look) {
	for size := range strings.FieldsSeq(*sizes) {
		for _, dark := range []bool{false, true} {
			look := browser.Look{Dark: dark}
			if _, err := fmt.Sscanf(size, "%dx%d", &look.Width, &look.Height); err != nil {
				t.Fatalf("-sizes: %q is no size such as 1440x900", size)
			}
			list = append(list, look)
		}
	}
	return list
}

// TestScreenshots takes a screenshot of each state of the page into the
// directory of -screenshots, for a person to look at. Where a part of the page
// is higher than the screen, there is one for each screen of it.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("set -screenshots to a directory")
	}
	p := start(t)
	p.set(map[string]any{"interval_ms": 60_000})
	page := p.in(browser.Chromium, browser.Look{})
	page.Wait("the first burst has been played", number+` === 0 && document.querySelectorAll("#rows tr").length === 15`)
	take := func(state, part string) {
		t.Helper()
		if *states != "" && !slices.Contains(strings.Fields(*states), state) {
			return
		}
		for _, look := range looks(t) {
			page.Show(look)
			page.Wait("the pictures are as wide as the page", `["#f-share", "#f-lose", "#f-yours", "#strip"].every(s => (e => Math.abs(e.viewBox.baseVal.width - e.clientWidth) < 2)(document.querySelector(s)))`)
			screens := browser.JS[int](page, `(e => { e.scrollIntoView({block: "start", behavior: "instant"}); return Math.ceil(e.offsetHeight / innerHeight) })(document.querySelector($[0]))`, part)
			for i := range screens {
				browser.JS[any](page, `void scrollBy({top: $[0] && innerHeight - 120, behavior: "instant"})`, i)
				name := fmt.Sprintf("%s-%d-%d", state, look.Width, i+1)
				if look.Dark {
					name += "-dark"
				}
				if err := os.WriteFile(filepath.Join(*screenshots, name+".png"), page.Screenshot(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	play := func(id string) {
		t.Helper()
		page.Show(browser.Look{})
		button := fmt.Sprintf(`document.querySelector("#%s .primary")`, id)
		browser.JS[any](page, "void "+button+".click()")
		page.Wait("it plays", button+`.textContent === "Stop" || document.querySelector("#v-`+id+`").textContent`)
		page.Wait("what came of it is said", button+`.textContent !== "Stop" && /\d/.test(document.querySelector("#v-`+id+`").textContent)`)
	}
	take("hero-empty", "#drain")
	p.set(hour)
	page.Show(browser.Look{})
	page.Click("button", "Fill the bucket")
	page.Wait("the bucket is full", number+` === 10`)
	page.Click("button", "Send 1")
	page.Wait("one is taken", number+` === 9`)
	take("hero-one", "#drain")
	p.set(map[string]any{"capacity": 1000, "rate": 100, "cost": 20})
	page.Wait("it is water", `document.querySelectorAll("#picture .slot").length === 0`)
	take("hero-water", "#drain")
	for _, chapter := range []string{"modes", "share", "lose", "yours"} {
		take(chapter+"-before", "#"+chapter)
		play(chapter)
		take(chapter, "#"+chapter)
	}
	for _, preset := range browser.JS[[]string](page, `[...document.querySelectorAll("#presets button")].map(e => e.textContent)`) {
		page.Show(browser.Look{})
		page.Click("button", preset)
		page.Wait("it is chosen", `[...document.querySelectorAll("#presets [aria-pressed=true]")].map(e => e.textContent).join() === $[0]`, preset)
		play("yours")
		take("preset-"+strings.ReplaceAll(strings.ToLower(preset), " ", "-"), "#yours")
	}
	page.Fill("textbox", "Capacity, tokens", "0")
	page.Wait("a mistake is told", `document.querySelector("#e-s-capacity").textContent !== ""`)
	take("mistake", "#yours")
	browser.JS[any](page, `void (document.querySelector("#log").open = true)`)
	take("log", ".log")
	p.kill()
	page.Wait("the page says that it does not know", `!document.querySelector("#banner").hidden`)
	take("lost", "#drain")
}
