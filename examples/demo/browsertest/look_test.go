package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/input"
)

func TestKeyboardAlone(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	reach := func(id string) {
		t.Helper()
		for range 80 {
			b.stroke('\t')
			if js[string](b, `document.activeElement.id`) == id {
				return
			}
		}
		t.Fatalf("Tab does not come to #%s", id)
	}
	reach("send")
	if !js[bool](b, `(s => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== "none")(getComputedStyle(document.activeElement))`) {
		t.Error("the focus is not to be seen")
	}
	b.stroke('\r')
	b.waitRows(200, 1)
	b.key(' ', input.DispatchKeyEventTypeKeyDown)
	b.key(' ', input.DispatchKeyEventTypeKeyUp)
	b.waitRows(200, 2)
	reach("burst")
	b.stroke('\r')
	b.wait("the burst is denied something", `document.querySelector("#log tr[data-status='429']")`)
	if nameless := js[[]string](b, `[...document.querySelectorAll("input, select, button, canvas")].filter(e =>
		!(e.labels || []).length && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby") && !(e.matches("button") && e.textContent.trim()) && e.getAttribute("aria-hidden") !== "true"
	).map(e => e.outerHTML.slice(0, 80))`); len(nameless) > 0 {
		t.Errorf("these have no name for a screen reader: %q", nameless)
	}
}

func TestPhone(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open(phone)
	fits := func(when string) {
		t.Helper()
		got := js[struct {
			Window, Content int
			Wide            []string
		}](b, `{window: innerWidth, content: document.documentElement.scrollWidth,
			wide: [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > 391).slice(0, 5).map(e => e.tagName + "#" + e.id + "." + e.className)}`)
		if got.Window != 390 || got.Content > 390 {
			t.Errorf("%s the page is %d wide in a window of %d: %q", when, got.Content, got.Window, got.Wide)
		}
	}
	fits("at first")
	b.click(field("second.on"))
	b.click("#apply")
	b.wait("two levels are shown", `document.querySelectorAll(".bucket .level").length === 2`)
	b.click("#burst")
	b.wait("something is denied", `document.querySelector("#log tr[data-status='429']")`)
	js[any](b, `document.querySelectorAll("#log .open[aria-expanded=false]").forEach(e => e.click())`)
	b.fill(field("capacity"), "0")
	b.fill(field("second.capacity"), "0")
	b.fill(field("cost"), "-1")
	b.click("#apply")
	b.wait("the messages are there", `["#err-capacity", "#err-second-capacity", "#err-cost"].every(id => document.querySelector(id).textContent.trim())`)
	p.set(map[string]any{
		"capacity": 1_000_000, "rate": 1, "interval_ms": 1, "mode": "continuous", "cost": 1, "second": map[string]any{"on": false}, "headers": "default", "key": "user",
	})
	p.ask("http", "a-name-that-is-longer-than-a-telephone-is-wide-and-has-no-place-to-break-it-at-all")
	b.wait("the long name is there", `[...document.querySelectorAll(".bucket")].some(e => e.textContent.includes("no-place-to-break"))`)
	fits("with everything open")
	b.save("phone")
}

// contrast lists the texts that stand out too little from what is behind them (WCAG 2.1, AA: 4.5, and 3 for large letters).
const contrast = `(() => {
	const ctx = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d", {willReadFrequently: true});
	const rgba = text => {
		ctx.clearRect(0, 0, 1, 1);
		ctx.fillStyle = text;
		ctx.fillRect(0, 0, 1, 1);
		const d = ctx.getImageData(0, 0, 1, 1).data;
		return [d[0], d[1], d[2], d[3] / 255];
	};
	const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
	const luminance = c => {
		const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
	const behind = e => {
		const layers = [];
		for (; e; e = e.parentElement) {
			const c = rgba(getComputedStyle(e).backgroundColor);
			layers.push(c);
			if (c[3] === 1) break;
		}
		return layers.reduceRight((below, top) => over(top, below), canvas);
	};
	const bad = [];
	for (const e of document.querySelectorAll("body, body *")) {
		if (e.matches("option, script, style, canvas, :disabled") || e.closest("svg, [aria-hidden='true']")) continue;
		const words = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join("").trim() || (e.matches("input, select") ? "value" : "");
		const r = e.getBoundingClientRect();
		if (!words || r.width === 0 || !e.checkVisibility({visibilityProperty: true})) continue;
		const s = getComputedStyle(e), ground = behind(e), c = rgba(s.color);
		for (let p = e; p; p = p.parentElement) c[3] *= Number(getComputedStyle(p).opacity);
		const [a, b] = [luminance(over(c, ground)), luminance(ground)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(s.fontSize), large = size >= 24 || size >= 18.66 && s.fontWeight >= 700;
		if (ratio < (large ? 3 : 4.5)) bad.push(ratio.toFixed(2) + " " + e.tagName + "#" + e.id + "." + e.className + " " + words.slice(0, 30) + " " + s.color + " on " + ground.map(Math.round));
	}
	return bad;
})()`

func TestContrast(t *testing.T) {
	t.Parallel()
	ground := map[string]string{}
	for _, scheme := range []struct {
		name string
		set  func(*tab)
	}{{"light", light}, {"dark", dark}} {
		t.Run(scheme.name, func(t *testing.T) {
			p := start(t)
			p.set(slow())
			b := p.open(scheme.set)
			readable := func(when string) {
				t.Helper()
				// Colours may be on their way: only what lasts is wrong.
				var bad []string
				for range 50 {
					if bad = js[[]string](b, `new Promise(r => setTimeout(() => r(`+contrast+`), 20))`); len(bad) == 0 {
						return
					}
				}
				t.Errorf("%s these can hardly be read: %q", when, bad)
			}
			readable("at first")
			b.click(field("second.on"))
			b.fill("#burst-n", "12")
			b.click("#burst")
			b.waitRows(429, 2)
			b.fill(field("capacity"), "0")
			b.click("#apply")
			b.wait("a message is there", `document.querySelector("#err-capacity").textContent.trim()`)
			js[any](b, `document.querySelectorAll("#log .open[aria-expanded=false]").forEach(e => e.click())`)
			b.click("#steady")
			b.wait("the steady button is on", `document.querySelector("#steady").getAttribute("aria-pressed") === "true"`)
			readable("with requests and messages")
			b.click("#steady")
			b.fill(field("capacity"), "10")
			b.click(`[data-scenario="users"] button.run`)
			readable("with a scenario that runs")
			b.wait("the verdict is there", `document.querySelector("#verdict").textContent`)
			readable("with a verdict")
			ground[scheme.name] = js[string](b, `getComputedStyle(document.body).backgroundColor`)
		})
	}
	if ground["light"] == ground["dark"] && len(ground) == 2 {
		t.Errorf("light and dark have the same ground, %s", ground["light"])
	}
}

// The pictures that a run leaves behind.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		how  []func(*tab)
	}{
		{"desktop-light", []func(*tab){light}},
		{"desktop-dark", []func(*tab){dark}},
		{"phone-light", []func(*tab){light, phone}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			b := p.open(c.how...)
			b.fill("#burst-n", "8")
			b.click("#burst")
			b.waitRows(200, 8)
			b.fill("#steady-rate", "6")
			b.click("#steady")
			b.wait("the steady requests are denied too", `document.querySelectorAll("#log tr[data-status='429']").length >= 6`)
			b.wait("it is mid-burst", `document.querySelector("#countdown").textContent.trim()`)
			js[any](b, `document.activeElement.blur(), scrollTo({top: 0, behavior: "instant"})`)
			b.mouse(input.DispatchMouseEventTypeMouseMoved, xy{2, 2})
			if shot := b.save(c.name); len(shot) < 10_000 {
				t.Errorf("the picture has %d bytes: it can't show much", len(shot))
			}
		})
	}
}
