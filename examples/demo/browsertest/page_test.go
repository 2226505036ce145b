package browsertest

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A click takes a token, and number, discs, answer, words and log agree.
func TestAClickTakesAToken(t *testing.T) {
	eachHost(t, rested, desktop, func(t *testing.T, p *tab) {
		p.click("#one")
		p.wait("the number is 9", number+` === 9`)
		p.wait("9 discs are drawn", discs+` === 9`)
		p.wait("it is answered", text("#status")+` === "200 OK"`)
		p.wait("its header fields say 9", text("#fields")+`.includes("X-RateLimit-Remaining: 9")`)
		p.wait("the log says 9", text("#rows tr td:nth-child(6)")+` === "9"`)
		p.wait("a screen reader hears it", text("#said")+` === "200: allowed, 9 tokens left."`)
		p.click("#fill")
		p.wait("the bucket is full", number+` === 10`)
		p.click("#burst")
		p.wait("the words count", text("#v-drain")+`.startsWith("15 at once: 10 allowed, 5 denied. There were 10 tokens")`)
		p.wait("the bucket is empty", number+` === 0 && `+discs+` === 0`)
		p.wait("the last one is denied", text("#status")+` === "429 Too Many Requests"`)
		p.wait("it says when to retry", text("#fields")+`.includes("Retry-After: 3600")`)
		p.wait("the picture says why", text("#picture .tag")+`.includes("denied: 0 tokens left")`)
	})
}

// In each frame of a burst the number is that of the discs.
func TestNumberAndDiscsAgreeInEachFrame(t *testing.T) {
	eachHost(t, rested, desktop, func(t *testing.T, p *tab) {
		js[any](p, `void (window.frames1 = new Promise(done => {
			const seen = [];
			const look = () => {
				seen.push([`+number+`, `+discs+`]);
				if (seen.at(-1)[0] === 0) return done(seen);
				requestAnimationFrame(look);
			};
			look();
		}))`)
		p.click("#burst")
		last := 10
		for _, frame := range js[[][2]int](p, `frames1`) {
			if frame[0] != frame[1] || frame[0] > last {
				t.Fatalf("the number is %d after %d, and %d discs are drawn", frame[0], last, frame[1])
			}
			last = frame[0]
		}
	})
}

// The settings of the first picture are turned by keys, typed, and dragged. Code
// and picture follow, and what was taken stays taken.
func TestSettingsAreTurned(t *testing.T) {
	eachHost(t, rested, desktop, func(t *testing.T, p *tab) {
		for range 4 {
			p.click("#one")
		}
		p.wait("four are taken", number+` === 6`)
		p.do(chromedp.Focus(chromedp.CSS("#k-rate")), chromedp.KeyEvent(kb.ArrowUp))
		p.wait("the code has the rate", text("#code-drain")+`.includes("core.Per(2, time.Hour)")`)
		p.wait("the tokens that are there stay", number+` === 6`)
		p.do(chromedp.Focus(chromedp.CSS("#k-capacity")), chromedp.KeyEvent("12"))
		p.wait("the code has the capacity", text("#code-drain")+`.includes("WithBurst(12)")`)
		p.wait("what was taken stays taken", number+` === 8 && `+text("#picture")+`.includes("4 tokens taken stay taken")`)
		at := js[[2]float64](p, `(r => [r.x + r.width / 2, r.y + r.height / 2])(
			document.querySelector("#rim circle").getBoundingClientRect())`)
		p.do(chromedp.DragAndDropXY(at[0], at[1], at[0], at[1]+400))
		p.wait("the rim is dragged down", `Number(document.querySelector("#rim").getAttribute("aria-valuenow")) === 1`)
		p.wait("the code follows", text("#code-drain")+`.includes("WithBurst(1)")`)
		js[any](p, `(e => { e.value = "gin"; e.dispatchEvent(new Event("change")) })(document.querySelector("#framework"))`)
		p.wait("the code is for another framework", text("#code-drain")+`.includes("ginlimit.PerIP(bucket)")`)
	})
}

// 1: three buckets on one time axis, and a last frame that stays.
func TestThreeModesAreDrained(t *testing.T) {
	eachHost(t, open, desktop, func(t *testing.T, p *tab) {
		p.click("#modes button")
		p.wait("it can be stopped meanwhile", text("#modes button")+` === "Stop"`)
		said := text("#v-modes")
		p.wait("what came of it is said", `/^Allowed: continuous \d+, stepped \d+, aligned \d+ of 57\./.test(`+said+`)`)
		p.wait("each has its line and its marks", all("#f-modes :is(.left, .dots, .crosses)")+`
			.filter(e => e.getAttribute("d").length > 40).length === 9`)
		p.wait("the picture counts what the words say", `String(`+said+`.match(/\d+/g).slice(0, 3)) ===
			String(`+all("#f-modes .end:has(tspan)")+`.map(e => e.textContent.match(/\d+/)))`)
	})
}

// 2: two replicas, with one bucket in Redis, and without Redis with two.
func TestABucketIsShared(t *testing.T) {
	eachHost(t, open, desktop, func(t *testing.T, p *tab) {
		p.wait("one bucket is in Redis, and two are not", all("#f-share .bucket")+`.length === 3`)
		p.wait("the code has Redis", text("#code-share")+`.includes("redisstore.Open")`)
		p.click("#share button")
		said := text("#v-share")
		p.wait("what came of it is said", `/^With Redis \d+ of 105 were allowed, without \d+\./.test(`+said+`)`)
		p.wait("the picture counts what the words say", `(([shared, , own]) =>
			String(`+all("#f-share .number.middle")+`.map(e => e.textContent)) === shared + " allowed," + own + " allowed"
		)(`+said+`.match(/\d+/g))`)
	})
}

// 3: Redis is turned off by hand: two dashed buckets. Then its loss is played.
func TestRedisIsLost(t *testing.T) {
	eachHost(t, open, desktop, func(t *testing.T, p *tab) {
		local := all("#f-lose .half") + `.filter(e => e.getAttribute("visibility") !== "hidden").length`
		p.wait("no replica has a bucket of its own", local+` === 0`)
		p.click("#redis")
		p.wait("two have, and Redis is crossed out", local+` === 2 && document.querySelector("#f-lose .redis.off")`)
		p.wait("it says what that means", text("#redis-says")+`.includes("at most twice the limit")`)
		p.click("#redis")
		p.wait("Redis is back", local+` === 0 && !document.querySelector("#f-lose .redis.off")`)
		p.click("#lose button.primary")
		said := text("#v-lose")
		p.wait("what came of it is said",
			`/Closed: 32 failed.* Open: 32 were allowed.* \d+ were allowed and \d+ denied/.test(`+said+`)`)
		p.wait("the last frame is the outage's", local+` === 2 && document.querySelector("#f-lose .redis.off")`)
		for _, does := range []string{"503: nothing is allowed", "everything is allowed", "at most twice the limit"} {
			p.wait("the picture says what each does", text("#f-lose")+`.includes("`+does+`")`)
		}
		p.wait("the picture counts what the words say",
			text("#f-lose")+`.includes(`+said+`.match(/default: (\d+) were/)[1] + " allowed")`)
	})
}

// 4: every setting holds at once, and a mistake is told beside its field.
func TestLimitsAreMadeYours(t *testing.T) {
	eachHost(t, rested, desktop, func(t *testing.T, p *tab) {
		p.click("#play-yours")
		p.wait("Ann is denied, Bob is not",
			`/^Ann, 10 a second: \d+ allowed, [1-9]\d* denied\. Bob.* 5 allowed, 0 denied\.$/.test(`+text("#v-yours")+`)`)
		p.click("#presets li:nth-child(5) button")
		p.wait("each has a second bucket", all("#f-yours .bucket")+`.length === 4`)
		p.wait("it counts model tokens", text("#f-yours")+`.includes("of 20,000 tokens left")`)
		p.wait("the code has them", text("#code-yours")+`.includes('WithUnit("tokens")')`)
		p.click("#presets li:nth-child(1) button")
		field := `document.querySelector("#s-capacity")`
		p.wait("the fields show what is in force", field+`.value === "10"`)
		for typed, says := range map[string]string{"0": "got 0", "ten": "must be a whole number"} {
			p.fill("#s-capacity", typed)
			p.wait("the mistake is told", text("#e-s-capacity")+`.includes("`+says+`")`)
			p.wait("the field is marked", field+`.getAttribute("aria-invalid") === "true"`)
		}
		p.fill("#s-capacity", "7")
		p.wait("the message is gone", text("#e-s-capacity")+` === "" && !`+field+`.getAttribute("aria-invalid")`)
		p.wait("the code has it", text("#code-yours")+`.includes("WithBurst(7)")`)
		p.wait("the picture has it", text("#f-yours")+`.includes("of 7 requests left")`)
	})
}

// By keys alone a visitor comes to everything, in order, and sees where.
func TestTheKeyboardReachesEverything(t *testing.T) {
	eachHost(t, rested, desktop, func(t *testing.T, p *tab) {
		at := func(selector string) bool {
			return js[bool](p, fmt.Sprintf(`document.activeElement.matches(%q)`, selector))
		}
		reach := func(selector string) {
			t.Helper()
			for range 30 {
				p.do(chromedp.KeyEvent(kb.Tab))
				if at(selector) {
					return
				}
			}
			t.Fatalf("30 times Tab does not reach %s", selector)
		}
		js[any](p, `document.querySelector("#k-capacity").focus()`)
		for _, next := range []string{"#k-cost", "#tap", "#rim", "#burst", "#one"} {
			reach(next)
		}
		p.wait("the focus is seen",
			`(s => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0)(getComputedStyle(document.activeElement))`)
		p.do(chromedp.KeyEvent(kb.Enter))
		p.wait("it was sent", number+` === 9`)
		for _, next := range []string{
			"#fields button", "#framework", "#copy", "#modes button", "#redis", "#presets button", "#s-capacity", "#log summary",
		} {
			reach(next)
		}
	})
}

// On a phone the bucket is above, the buttons are in a bar at the bottom, and
// nothing is wider than the screen, or too small to be read or pressed.
func TestPhone(t *testing.T) {
	eachHost(t, rested, phone, func(t *testing.T, p *tab) {
		for _, at := range []string{"#sentence", "#code-drain"} {
			js[any](p, `document.querySelector("`+at+`").scrollIntoView({block: "end", behavior: "instant"})`)
			p.wait("picture and buttons are in sight at "+at, `(([picture, bar]) =>
				picture.top >= 0 && picture.bottom < innerHeight / 2 && bar.top > innerHeight / 2 && bar.bottom <= innerHeight
			)(["#picture", "#burst"].map(s => document.querySelector(s).getBoundingClientRect()))`)
		}
		js[any](p, `document.querySelectorAll("details").forEach(e => e.open = true)`)
		p.wait("nothing is wider than the screen", `document.documentElement.scrollWidth <= innerWidth`)
		for what, list := range map[string]string{
			"too small to be pressed": all("button, input, select, summary, a, h1 .knob") + `
				.filter(e => (r => r.width > 0 && (r.width < 24 || r.height < 24))(e.getBoundingClientRect()))`,
			"too small to be read": all("body *") + `
				.filter(e => e.getBoundingClientRect().width > 1 && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
				.filter(e => parseFloat(getComputedStyle(e).fontSize) * (e.getScreenCTM?.().a ?? 1) < 11.9)`,
			"zoomed into by a phone": all("input:not([type=checkbox]), select") + `
				.filter(e => parseFloat(getComputedStyle(e).fontSize) < 16)`,
		} {
			if found := js[[]string](p, list+`.map(e => e.outerHTML.slice(0, 80))`); len(found) > 0 {
				t.Errorf("%s: %q", what, found)
			}
		}
	})
}

// Without motion nothing is on its way, and each of five denials is seen.
func TestReducedMotionShowsEachAnswer(t *testing.T) {
	for _, l := range []look{desktop, phone} {
		l.media = map[string]string{"prefers-reduced-motion": "reduce"}
		eachHost(t, rested, l, func(t *testing.T, p *tab) {
			js[any](p, `void (window.seen = {denials: 0, moving: 0}, function look() {
				const places = new Set(`+all("#picture .pill.no")+`.map(e => e.getAttribute("transform")));
				seen.denials = Math.max(seen.denials, places.size);
				seen.moving += `+all("#picture .pill.asks")+`.length;
				requestAnimationFrame(look);
			}())`)
			p.click("#burst")
			p.wait("five denials stand side by side", `seen.denials === 5`)
			if n := js[int](p, `seen.moving`); n > 0 {
				t.Errorf("requests are on their way in %d frames", n)
			}
		})
	}
}

// When the demo ends, the page says so, and stands still. When it is back, it
// goes on by itself.
func TestALostDemoIsSaid(t *testing.T) {
	t.Parallel()
	needBrowser(t)
	first := start(t, "127.0.0.1:0")
	p := rested(t, first.url, desktop)
	p.loses = true
	first.kill()
	p.wait("the page says so", `!document.querySelector("#banner").hidden`)
	start(t, strings.TrimPrefix(first.url, "http://"))
	p.wait("it goes on", `document.querySelector("#banner").hidden && `+number+` === 10`)
	p.click("#one")
	p.wait("it is answered", text("#status")+` === "200 OK"`)
}

//go:embed testdata/axe.min.js
var axe string

// axe finds nothing that keeps people from using the page, however it is shown.
func TestAxeFindsNothing(t *testing.T) {
	for name, l := range map[string]look{
		"light":         {1440, 900, map[string]string{"prefers-color-scheme": "light"}},
		"dark":          {1440, 900, map[string]string{"prefers-color-scheme": "dark"}},
		"phone":         phone,
		"forced colors": {1440, 900, map[string]string{"forced-colors": "active"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachHost(t, rested, l, func(t *testing.T, p *tab) {
				js[any](p, `(() => { `+axe+` })()`)
				p.click("#burst")
				p.wait("there is an answer", text("#status")+` === "429 Too Many Requests"`)
				js[any](p, `document.querySelectorAll("details").forEach(e => e.open = true)`)
				p.click("#redis")
				p.ask("api/settings/yours", map[string]any{"second": map[string]any{"on": true}})
				p.fill("#s-capacity", "0")
				p.wait("a mistake is told", `document.querySelector(".message:not(:empty)")`)
				p.wait("Redis is off", `document.querySelector("#f-lose .redis.off")`)
				var found []string
				for range 10 { // colours may be on their way: only what lasts is wrong
					found = js[[]string](p, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v =>
						v.id + ": " + v.nodes.slice(0, 3).map(n => n.target + " " + n.failureSummary).join("; ")))`)
					if len(found) == 0 {
						return
					}
				}
				t.Errorf("axe: %s", strings.Join(found, "\n"))
			})
		})
	}
}
