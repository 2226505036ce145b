package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func TestMistakesInNumbersStandBesideThem(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	b.click("#steady")
	for _, c := range []struct{ id, bad, good, press string }{
		{"burst-n", "0", "2", "#burst"}, {"burst-n", "1.5", "2", "#burst"}, {"burst-n", "", "2", "#burst"}, {"steady-rate", "0", "3", ""},
	} {
		b.fill("#"+c.id, c.bad)
		if c.press != "" {
			b.click(c.press)
		}
		said := `(e => e.getAttribute("aria-invalid") === "true" && e.getAttribute("aria-describedby") === "err-" + e.id && document.getElementById("err-" + e.id).textContent !== "")(document.getElementById($[0]))`
		b.wait("a message stands beside "+c.id, said, c.id)
		asked := p.all()
		eventually(t, "other requests have come", func() bool { return p.all() > asked+1 })
		if !js[bool](b, said, c.id) {
			t.Errorf("%s %q: the message went with other requests", c.id, c.bad)
		}
		b.fill("#"+c.id, c.good)
		b.wait("it is gone when it is corrected", `!document.getElementById($[0]).hasAttribute("aria-invalid") && document.getElementById("err-" + $[0]).textContent === ""`, c.id)
	}
	b.click("#steady")
}

func TestTheCountdownOfAKeyThatIsNew(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["key"] = "user"
	p.set(s)
	b := p.open()
	for range 12 {
		p.ask("chi", "zoe")
	}
	b.wait("it counts down for her", `/for zoe in/.test(document.querySelector("#countdown").textContent)`)
	b.wait("a screen reader is told", `/zoe/.test(document.querySelector("#countdown-said").textContent)`)
}

func TestNoBucketIsThereBeforeAnAddressIs(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	s := slow()
	s["key"] = "ip"
	p.set(s)
	b.wait("the page says why", `!document.querySelector("#buckets-empty").hidden && !document.querySelector(".bucket")`)
	b.click("#send")
	b.wait("there is one", `document.querySelector("#buckets-empty").hidden && document.querySelectorAll(".bucket").length === 1`)
}

func TestTheDeniedOfManyUsersIsShown(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["key"], s["capacity"] = "user", 1
	p.set(s)
	b := p.open()
	for _, user := range []string{"zoe", "zoe", "c", "d", "e", "f", "g", "h", "i", "k", "l"} {
		p.ask("http", user)
	}
	b.wait("as many as fit are shown, with her", `document.querySelectorAll(".bucket").length === 8 && document.querySelector(".bucket[data-key$='zoe']") && /4 buckets more/.test(document.querySelector("#buckets-more").textContent)`)
}

func TestAHeldListTellsHowManyCame(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	b.click("#hold")
	for range 5 {
		p.ask("gin", "ann")
	}
	b.wait("it says so", `/5 requests/.test(document.querySelector("#log-empty").textContent) && /5 new/.test(document.querySelector("#log-note").textContent)`)
	b.click("#hold")
	b.waitRows(200, 5)
	b.wait("nothing is held back", `document.querySelector("#log-note").textContent === ""`)
}

func TestLimitsOfSomeoneElseWhileTyping(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	b.fill(field("capacity"), "77")
	p.set(slow())
	b.wait("the page tells", `!document.querySelector("#elsewhere").hidden && document.querySelector("#f-capacity").value === "77"`)
	b.click("#load")
	b.wait("those in force are shown, and the focus is in the form", `document.querySelector("#elsewhere").hidden && document.activeElement.id === "f-capacity" && document.querySelector("#f-interval").value === "3600000"`)
}

func TestWhatWasSaidOfALostServerGoesWhenItIsBack(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	js[any](b, `(async () => {
		const {note, away} = await import("/notes.js"), {lost} = await import("/stream.js");
		note("send", away);
		note("reset", away);
		document.querySelector("#scenario-note").textContent = away;
		lost();
	})()`)
	b.wait("the page is live again, and says nothing of it", `document.querySelector("#live").dataset.live === "true" && document.querySelector("#banner").hidden &&
		["#send-note", "#scenario-note"].every(s => document.querySelector(s).textContent === "")`)
}

func TestNothingMovesForThoseWhoWantItSo(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	b := p.open(func(b *tab) {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}},
		})
		b.must("reduce motion", err)
	})
	js[any](b, `(() => {
		window.testMoved = 0;
		const animate = Element.prototype.animate;
		Element.prototype.animate = function (...a) { testMoved++; return animate.apply(this, a) };
	})()`)
	b.click("#burst")
	b.waitRows(429, 5)
	if n := js[int](b, `testMoved + document.getAnimations().length`); n != 0 {
		t.Errorf("%d things move", n)
	}
}

func TestTheLogOfAPhoneHasAllColumns(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	b := p.open(phone)
	b.click("#send")
	b.waitRows(200, 1)
	if !js[bool](b, `[...document.querySelectorAll("#log tr td")].length === 6 && [...document.querySelectorAll("#log tr td")].every(e => e.getAttribute("role") === "cell" && e.getBoundingClientRect().width > 20) &&
		document.querySelectorAll("thead [role=columnheader]").length === 6 && document.querySelector("thead").checkVisibility()`) {
		t.Error("columns, or their headers, are missing")
	}
}

func TestTheLogIsNotCutOff(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.click("#burst")
	b.waitRows(429, 5)
	for _, width := range []int64{320, 375, 601, 768, 960, 1100, 1280} {
		b.viewport(width, 900, false)
		b.wait("the log fits", `innerWidth === $[0] && (e => e.scrollWidth <= e.clientWidth)(document.querySelector("#area-log .scroll"))`, width)
	}
}
