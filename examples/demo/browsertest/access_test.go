package browsertest

import (
	_ "embed"
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

//go:embed testdata/axe.min.js
var axe string

// violations are the rules of accessibility that the page breaks now, with the elements.
const violations = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.target + " " + (n.failureSummary || "").slice(0, 300)).slice(0, 3).join("; ")))`

func TestAxeFindsNothing(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		for name, look := range map[string]browser.Look{
			"light": {}, "dark": {Dark: true}, "phone": browser.Phone, "forced colours": {ForcedColors: true}, "reduced motion": {ReducedMotion: true},
		} {
			t.Run(name, func(t *testing.T) {
				p := start(t)
				p.set(slow())
				page := p.in(in, look)
				browser.JS[any](page, `(() => { `+axe+` })()`)
				check := func(when string) {
					t.Helper()
					var found []string
					for range 5 { // colours may be on their way: only what lasts is wrong
						if found = browser.JS[[]string](page, violations); len(found) == 0 {
							return
						}
					}
					for _, v := range found {
						t.Errorf("%s: %s", when, v)
					}
				}
				check("at first")
				page.Fill("spinbutton", "Requests at once", "12")
				page.Click("button", "Send a burst")
				page.Wait("2 are denied", `document.querySelectorAll("#log tr[data-status='429']").length === 2`)
				check("with a list and an answer")
				page.Save("axe-" + in.Name + "-" + name)
			})
		}
	})
}

func TestTargetsAreLargeAndFieldsDoNotZoom(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	b := p.open(phone)
	b.click(field("second.on"))
	b.click("#burst")
	b.waitRows(429, 5)
	small := js[[]string](b, `[...document.querySelectorAll("button, input, select, a[href], [role=switch]")].filter(e => e.checkVisibility() && !e.matches(".skip")).filter(e => {
		const r = e.getBoundingClientRect();
		return r.width < 24 || r.height < 24;
	}).map(e => e.outerHTML.slice(0, 80))`)
	if len(small) > 0 {
		t.Errorf("these are smaller than 24 pixels: %q", small)
	}
	zoom := js[[]string](b, `[...document.querySelectorAll("input:not([type=checkbox]), select, textarea")].filter(e => parseFloat(getComputedStyle(e).fontSize) < 16).map(e => e.outerHTML.slice(0, 80))`)
	if len(zoom) > 0 {
		t.Errorf("a phone zooms into these, whose letters are smaller than 16 pixels: %q", zoom)
	}
}

func TestAPhoneShowsTheBucketAndSendAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open(phone)
	if !js[bool](b, `scrollY === 0 && [".bucket .level svg", "#send"].every(s => (r => r.top >= 0 && r.bottom <= 844 && r.width > 0)(document.querySelector(s).getBoundingClientRect()))`) {
		t.Error("the bucket and Send are not in one view")
	}
}

// The list has two tab stops, however long it is, and the arrow keys move through it.
func TestTheListHasFewTabStops(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.click("#burst")
	b.waitRows(429, 5)
	stops := `[...document.querySelectorAll("#area-log .scroll, #area-log .scroll *")].filter(e => e.tabIndex >= 0).length`
	b.wait("the list and a row can be reached", stops+` === 2`)
	b.focus("#log .open[tabindex='0']")
	first := js[string](b, `document.activeElement.closest("tr").dataset.id`)
	js[any](b, `document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}))`)
	if js[string](b, `document.activeElement.closest("tr").dataset.id`) == first {
		t.Error("the arrow key does not go to the next row")
	}
	b.stroke('\r')
	b.wait("its headers are shown", `document.activeElement.getAttribute("aria-expanded") === "true" && /Retry-After/.test(document.activeElement.nextElementSibling.textContent) && document.activeElement.nextElementSibling.checkVisibility()`)
	b.wait("there are still two stops", stops+` === 2`)
}

// A button tells its state by its name or by aria-pressed, not by both.
func TestStateAndNameOfButtonsAgree(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	for _, id := range []string{"steady", "hold", "scene-modes"} {
		name := js[string](b, `document.getElementById($[0]).textContent`, id)
		b.click("#" + id)
		b.wait(id+" is pressed", `document.getElementById($[0]).getAttribute("aria-pressed") === "true"`, id)
		if now := js[string](b, `document.getElementById($[0]).textContent`, id); now != name {
			t.Errorf("%s is pressed, and its name changed from %q to %q", id, name, now)
		}
	}
}
