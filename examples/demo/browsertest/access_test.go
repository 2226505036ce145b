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
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		for name, look := range map[string]browser.Look{
			"light": {}, "dark": {Dark: true}, "phone": browser.Phone, "forced colours": {ForcedColors: true}, "reduced motion": {ReducedMotion: true},
		} {
			t.Run(name, func(t *testing.T) {
				p := start(t)
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
				page.Wait("the first burst has been played", `document.querySelectorAll("#rows tr").length === 15`)
				check("with an answer")
				page.Save("axe-" + in.Name + "-" + name)
				browser.JS[any](page, `document.querySelectorAll("details").forEach(e => e.open = true)`)
				p.post("/api/redis", map[string]any{"on": false})
				p.post("/api/settings/yours", map[string]any{"second": map[string]any{"on": true}})
				page.Fill("textbox", "Capacity, tokens", "0")
				page.Wait("there are a message, two limits, and half-buckets", `document.querySelector(".message:not(:empty)") && document.querySelectorAll("#f-yours .bucket").length === 4 && document.querySelector("#f-lose .redis.off")`)
				check("with everything open, a mistake, and Redis off")
			})
		}
	})
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.played(in, browser.Look{})
		p.post("/api/run/drain/fill", map[string]any{}) // a click would begin elsewhere
		page.Wait("the bucket is full", number+` === 10`)
		for _, next := range [][2]string{{"slider", "Capacity"}, {"slider", "Tap"}, {"slider", "Rim"}, {"button", "Send 15 at once"}, {"button", "Send 1"}} {
			page.Reach(next[0], next[1])
		}
		// Without a window manager WebKit's window has no focus, and shows none.
		if !browser.JS[bool](page, `!document.hasFocus() || (s => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0)(getComputedStyle(document.activeElement))`) {
			t.Error("the focus is not to be seen")
		}
		page.Key("Enter")
		page.Wait("it was sent", number+` === 9`)
		page.Reach("button", "X-RateLimit-Limit")
		page.Reach("button", "Copy the program")
		page.Reach("button", "Drain all three")
		page.Reach("switch", "Redis")
		page.Reach("button", "Model tokens")
		page.Reach("textbox", "Capacity, tokens")
	})
}

// A phone: the bucket stays at the top third, buttons are in a bar at the bottom, and nothing is wider than the screen.
func TestPhone(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.played(in, browser.Phone)
		see := func(where string) {
			t.Helper()
			got := browser.JS[struct{ Top, Bottom, Bar, Wide float64 }](page, `(() => {
				const picture = document.querySelector("#picture").getBoundingClientRect(), bar = document.querySelector("#burst").getBoundingClientRect();
				return {top: picture.top, bottom: picture.bottom, bar: bar.top, wide: document.documentElement.scrollWidth};
			})()`)
			if got.Top < 0 || got.Bottom > 844*0.48 || got.Bar < 700 || got.Bar > 844 || got.Wide > 390 {
				t.Errorf("%s the picture is from %v to %v, the button at %v, the page %v wide", where, got.Top, got.Bottom, got.Bar, got.Wide)
			}
		}
		see("at first")
		page.Save("phone-" + in.Name)
		browser.JS[any](page, `document.querySelector("#code").scrollIntoView({block: "end", behavior: "instant"})`)
		see("at the code")
		small := browser.JS[[]string](page, `[...document.querySelectorAll("button, input, select, a[href]:not(.foot a), summary, h1 .knob, #tap .touch, #rim .touch")].filter(e => e.getBoundingClientRect().width > 0).filter(e => {
			const r = e.getBoundingClientRect();
			return r.width < 24 || r.height < (e.matches(".touch") ? 15 : 24);
		}).map(e => e.outerHTML.slice(0, 80))`)
		if len(small) > 0 {
			t.Errorf("these are smaller than 24 pixels: %q", small)
		}
		// A smaller phone, and the page enlarged twice.
		for _, look := range []browser.Look{{Width: 320, Height: 700}, {Width: 390, Height: 844}} {
			page.Show(look)
			page.Wait("the pictures are as wide as the page", `["#f-share", "#f-lose", "#strip"].every(s => (e => Math.abs(e.viewBox.baseVal.width - e.clientWidth) < 2)(document.querySelector(s)))`)
			if wide := browser.JS[int](page, `document.documentElement.scrollWidth`); wide > look.Width {
				t.Errorf("at %d pixels the page is %d wide", look.Width, wide)
			}
			letters := browser.JS[[]string](page, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().width > 1 && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).filter(e => parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM?.().a ?? 1) < 11.9).map(e => e.outerHTML.slice(0, 80))`)
			if len(letters) > 0 {
				t.Errorf("at %d pixels these letters are smaller than 12 pixels: %q", look.Width, letters)
			}
		}
		page.Show(browser.Look{Width: 683, Height: 325})
		browser.JS[any](page, `scrollTo({top: 0, behavior: "instant"})`)
		if list := browser.JS[[]string](page, outside, "#burst", "#one", "#fill"); len(list) > 0 {
			t.Errorf("enlarged twice these are not in sight: %q", list)
		}
		page.Show(browser.Phone)
		zoom := browser.JS[[]string](page, `[...document.querySelectorAll("input:not([type=checkbox]), select")].filter(e => parseFloat(getComputedStyle(e).fontSize) < 16).map(e => e.outerHTML.slice(0, 80))`)
		if len(zoom) > 0 {
			t.Errorf("a phone zooms into these, whose letters are smaller than 16 pixels: %q", zoom)
		}
	})
}

// Without motion nothing is on its way, and each answer of a burst has its
// place: five denials are five, wherever they are looked at.
func TestReducedMotionShowsEachAnswer(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		for name, look := range map[string]browser.Look{"desktop": {}, "small": {Width: 1024, Height: 650}, "phone": {Width: 360, Height: 740}} {
			t.Run(name, func(t *testing.T) {
				look.ReducedMotion = true
				p := start(t)
				page := p.full(in, look)
				browser.JS[any](page, `void (window.testPills = new Promise(done => {
					const look = () => {
						const of = kind => [...document.querySelectorAll("#picture .pill." + kind)].filter(e => Number(e.getAttribute("opacity")) > 0);
						if (of("no").length < 5 && document.querySelectorAll("#rows tr").length < 31) return requestAnimationFrame(look);
						done({
							asks: document.querySelectorAll("#picture .pill.asks").length, moving: document.getAnimations().length, allowed: of("ok").length,
							denied: of("no").map(e => (r => ({left: r.left, right: r.right, top: r.top, bottom: r.bottom, wide: innerWidth}))(e.getBoundingClientRect())),
						});
					};
					look();
				}))`)
				page.Click("button", "Send 15 at once")
				got := browser.JS[struct {
					Asks, Moving, Allowed int
					Denied                []struct{ Left, Right, Top, Bottom, Wide float64 }
				}](page, `await testPills`)
				if got.Asks != 0 || got.Moving != 0 || got.Allowed != 10 || len(got.Denied) != 5 {
					t.Fatalf("%d requests are on their way, %d things move, %d answers are 200 and %d are 429: want 0, 0, 10 and 5", got.Asks, got.Moving, got.Allowed, len(got.Denied))
				}
				for i, a := range got.Denied {
					if a.Left < 0 || a.Top < 0 || a.Right > a.Wide {
						t.Errorf("a denial is not wholly in sight: %+v", a)
					}
					for _, b := range got.Denied[:i] {
						if a.Left < b.Right-1 && b.Left < a.Right-1 && a.Top < b.Bottom-1 && b.Top < a.Bottom-1 {
							t.Errorf("a denial covers another one: %+v and %+v", a, b)
						}
					}
				}
			})
		}
	})
}
