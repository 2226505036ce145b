package browsertest

import (
	"reflect"
	"testing"
)

func TestChangeALimit(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	b.fill(field("capacity"), "3")
	b.fill(field("rate"), "0.5")
	b.fill(field("interval_ms"), "600000")
	b.fill(field("headers"), "legacy")
	b.click("#apply")
	b.wait("the bucket has 3 tokens", tokens+` === 3`)
	s := p.hello().Settings
	if s["capacity"] != 3.0 || s["rate"] != 0.5 || s["interval_ms"] != 600_000.0 || s["headers"] != "legacy" {
		t.Errorf("the server has %v", s)
	}
	b.fill("#burst-n", "5")
	b.click("#burst")
	b.waitRows(200, 3)
	b.waitRows(429, 2)
	if !js[bool](b, `[...document.querySelectorAll("#log tr[data-id]")].every(r => /^x-ratelimit-limit: 3$/im.test(r.textContent))`) {
		t.Error("the headers do not tell the new limit")
	}
	b.fill(field("cost"), "4")
	b.click("#apply")
	eventually(t, "the cost is 4", func() bool { return p.hello().Settings["cost"] == 4.0 })
	b.load()
	if got := js[string](b, `document.querySelector($[0]).value`, field("cost")); got != "4" {
		t.Errorf("after loading the page again, the form shows the cost %q", got)
	}
}

func TestSecondLimit(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.wait("one level is shown", `document.querySelectorAll(".bucket .level").length === 1`)
	b.click(field("second.on"))
	b.fill(field("second.capacity"), "4")
	b.fill(field("second.rate"), "1")
	b.fill(field("second.interval_ms"), "3600000")
	b.fill(field("second.mode"), "stepped")
	b.click("#apply")
	b.wait("two levels are shown", `document.querySelectorAll(".bucket .level").length === 2`)
	b.fill("#burst-n", "6")
	b.click("#burst")
	b.waitRows(200, 4)
	b.waitRows(429, 2)
	b.wait("each level has lost what was admitted", `(l => Math.floor(l[0]) === 6 && l[1] === 0)(
		[...document.querySelectorAll(".bucket .level")].map(e => Number(e.dataset.tokens)))`)
	b.fill(field("second.capacity"), "0")
	b.click("#apply")
	b.wait("the message stands at the second limit", `document.querySelector("#err-second-capacity").textContent.trim() !== "" &&
		document.querySelector("#err-capacity").textContent.trim() === ""`)
	b.click(field("second.on"))
	b.click("#apply")
	b.wait("one level is shown again", `document.querySelectorAll(".bucket .level").length === 1`)
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	before := p.hello().Settings
	b := p.open()
	for _, c := range []struct{ name, value, good string }{
		{"capacity", "0", "10"},
		{"capacity", "-5", "10"},
		{"capacity", "1.5", "10"},
		{"capacity", "1000000000000000", "10"},
		{"capacity", "", "10"},
		{"capacity", "0x10", "10"},
		{"rate", "0", "1"},
		{"rate", "-1", "1"},
		{"rate", "", "1"},
		{"interval_ms", "0", "3600000"},
		{"interval_ms", "1e300", "3600000"},
		{"cost", "-1", "1"},
		{"cost", "0.5", "1"},
		{"cost", "", "1"},
	} {
		selector := field(c.name)
		b.fill(selector, c.value)
		b.click("#apply")
		b.wait("a message stands beside "+c.name+" for "+c.value, `(() => {
			const e = document.querySelector($[0]), m = document.querySelector($[1]);
			if (m.textContent.trim() === "" || e.getAttribute("aria-invalid") !== "true") return false;
			if (!(e.getAttribute("aria-describedby") || "").split(/\s+/).includes(m.id)) return false;
			const a = e.getBoundingClientRect(), b = m.getBoundingClientRect();
			const gap = Math.hypot(Math.max(0, b.left - a.right, a.left - b.right), Math.max(0, b.top - a.bottom, a.top - b.bottom));
			return b.width > 0 && b.height > 0 && gap < 60;
		})()`, selector, "#err-"+c.name)
		if others := js[[]string](b, `[...document.querySelectorAll("[id^='err-']")].filter(e => e.id !== $[0] && e.textContent.trim()).map(e => e.id + ": " + e.textContent)`, "err-"+c.name); len(others) > 0 {
			t.Errorf("%s %q also has the messages %q", c.name, c.value, others)
		}
		if got := js[string](b, `document.querySelector($[0]).value`, selector); got != c.value {
			t.Errorf("%s: %q was typed, the field holds %q", c.name, c.value, got)
		}
		if after := p.hello().Settings; !reflect.DeepEqual(after, before) {
			t.Fatalf("%s %q changed the server's settings to %v", c.name, c.value, after)
		}
		b.fill(selector, c.good)
		b.click("#apply")
		b.wait("the message is gone", `document.querySelector($[1]).textContent.trim() === "" && document.querySelector($[0]).getAttribute("aria-invalid") !== "true"`, selector, "#err-"+c.name)
	}
	b.fill(field("capacity"), "0")
	b.fill(field("cost"), "-1")
	b.click("#apply")
	b.wait("both messages are there at once", `["#err-capacity", "#err-cost"].every(id => document.querySelector(id).textContent.trim())`)
}

func TestLimitChangedInAnotherTab(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	a := p.open()
	b := a.beside()
	a.fill(field("capacity"), "7")
	a.fill(field("mode"), "stepped")
	a.click("#apply")
	b.wait("the other tab's form has the new limit", `document.querySelector($[0]).value === "7" && document.querySelector($[1]).value === "stepped"`, field("capacity"), field("mode"))
	b.wait("the other tab's bucket has the new size", tokens+` === 7`)
	b.fill("#burst-n", "9")
	b.click("#burst")
	for _, tab := range []*tab{a, b} {
		tab.waitRows(200, 7)
		tab.waitRows(429, 2)
		tab.waitCount("#m-admitted", 7)
		tab.waitCount("#m-denied", 2)
		tab.wait("the bucket is empty", tokens+` === 0`)
	}
}
