package browsertest

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// 1: three buckets on one time axis, and a last frame that stays.
func TestDrainIt(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.in(in, browser.Look{})
		page.Click("button", "Drain all three")
		page.Wait("it can be stopped meanwhile", `document.querySelector("#modes .primary").textContent === "Stop"`)
		page.Wait("what came of it is said", `/^Allowed: continuous \d+, stepped \d+, aligned \d+ of \d+\. .*they differ in when\.$/.test(document.querySelector("#v-modes").textContent)`)
		last := `JSON.stringify([...document.querySelectorAll("#f-modes .left, #f-modes .dots, #f-modes .crosses")].map(e => e.getAttribute("d")?.length > 40)) === "[true,true,true,true,true,true,true,true,true]"`
		page.Wait("each has its line and its marks", last)
		page.Save("drain-it-" + in.Name)
		p.reload(page)
		page.Wait("the words are still there", `/^Allowed: continuous/.test(document.querySelector("#v-modes").textContent)`)
		page.Wait("the picture counts what the words say", `JSON.stringify(document.querySelector("#v-modes").textContent.match(/\d+/g).slice(0, 3)) === JSON.stringify([...document.querySelectorAll("#f-modes .end:has(tspan)")].map(e => e.textContent.match(/\d+/)[0]))`)
	})
}

// 2: a load balancer, two replicas, with one bucket in Redis, and without Redis with two.
func TestShareIt(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.in(in, browser.Look{})
		for _, part := range []string{"Load balancer", "Replica A", "Replica B", "Redis"} {
			page.Wait(part+" is in the picture", `document.querySelector("#f-share").textContent.includes($[0])`, part)
		}
		if n := browser.JS[int](page, `document.querySelectorAll("#f-share .bucket").length`); n != 3 {
			t.Errorf("%d buckets are drawn, want one in Redis and one in each replica without", n)
		}
		page.WaitText("redisstore.Open")
		page.Click("button", "Flood both replicas")
		page.Wait("requests go on their way", `document.querySelectorAll("#f-share .pill").length > 0`)
		page.Wait("what came of it is said", `/^With Redis \d+ of 105 were allowed, without \d+\./.test(document.querySelector("#v-share").textContent)`)
		page.Wait("the picture counts what the words say", `(([with_, , without]) => document.querySelector("#f-share").textContent.includes(with_ + " allowed") && document.querySelector("#f-share").textContent.includes(without + " allowed") && Number(with_) >= 10 && Math.abs(2 * with_ - without) <= 2)(document.querySelector("#v-share").textContent.match(/\d+/g))`)
		page.Save("share-it-" + in.Name)
	})
}

// 3: Redis is turned off by hand: two dashed half-buckets. Restoring merges them.
func TestLoseRedis(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.in(in, browser.Look{})
		halves := `[...document.querySelectorAll("#f-lose .half")].filter(e => e.getAttribute("visibility") !== "hidden").length`
		if n := browser.JS[int](page, halves); n != 0 {
			t.Errorf("%d half-buckets with Redis on", n)
		}
		page.Click("switch", "Redis")
		page.Wait("two dashed half-buckets appear, and the box is grey", halves+` === 2 && document.querySelector("#f-lose .redis.off")`)
		page.WaitText("two local buckets allow at most twice the limit")
		page.Save("lose-redis-" + in.Name)
		page.Click("switch", "Redis")
		page.Wait("they merge", halves+` === 0 && !document.querySelector("#f-lose .redis.off")`)
		page.WaitText("OnFailure: core.FailLocal")
		page.Click("button", "Lose Redis for 4 seconds")
		said := `document.querySelector("#v-lose").textContent`
		page.Wait("what came of it is said", `/Closed: \d+ failed with 503\. Open: \d+ were allowed\. Local, the default: \d+ were allowed and \d+ denied, .* at most twice the limit\.$/.test(`+said+`)`)
		last := func(when string) {
			t.Helper()
			page.Wait(when+" the last frame is the outage's: Redis is crossed out, the boxes are full", `document.querySelector("#f-lose .redis.off") && getComputedStyle(document.querySelector("#f-lose .cross")).display !== "none" && `+halves+` === 2`)
			for _, says := range []string{"503: nothing is allowed", "everything is allowed", "at most twice the limit", "the default"} {
				page.Wait(when+" it says "+says, `document.querySelector("#f-lose").textContent.includes($[0])`, says)
			}
			page.Wait(when+" the picture counts what the words say", `[/(\d+) failed with/, /Open: (\d+) were/, /default: (\d+) were/].every((e, i) => document.querySelector("#f-lose").textContent.includes(`+said+`.match(e)[1] + (i > 0 ? " allowed" : " failed")))`)
		}
		last("at the end")
		page.Save("outage-" + in.Name)
		p.reload(page)
		last("after a reload")
		page.Click("switch", "Redis")
		page.Click("switch", "Redis")
		page.Wait("by hand the picture and the words are of now", `document.querySelector("#f-lose .redis:not(.off)") && `+said+` === ""`)
	})
}

// 4: every setting holds at once, and a mistake is told beside its field.
func TestMakeItYours(t *testing.T) {
	onBothHosts(t, func(t *testing.T, in *browser.Browser, start func(*testing.T, ...string) *process) {
		p := start(t)
		page := p.in(in, browser.Look{})
		page.Click("button", "Send as Ann and Bob")
		page.Wait("it plays", `document.querySelector("#yours .primary").textContent === "Stop"`)
		page.Click("button", "Send them")
		page.Wait("another script does not play meanwhile, and the page says so", `/plays already/.test(document.querySelector("#v-yours").textContent)`)
		page.Wait("Ann is denied, Bob is not", `/^Ann, 10 a second: \d+ allowed, [1-9]\d* denied\. Bob, 1 a second: 5 allowed, 0 denied\.$/.test(document.querySelector("#v-yours").textContent)`)
		page.Click("button", "Model tokens")
		page.Wait("two buckets each, one of them water", `document.querySelectorAll("#f-yours .bucket").length === 4 && /20,000/.test(document.querySelector("#f-yours").textContent)`)
		page.Wait("the code has both limits", `/WithUnit\("tokens"\)/.test(document.querySelector("#code-yours").textContent) && /WithUnits/.test(document.querySelector("#code-yours").textContent)`)
		page.Click("button", "Three at once")
		page.Wait("slots are drawn", `/of 3 slots free/.test(document.querySelector("#f-yours").textContent)`)
		page.WaitText("Ten come at once. How many get to work?")
		page.Click("button", "Send 10 at once")
		page.Wait("three are at work", `document.querySelector("#v-yours").textContent === "10 at once: 3 allowed, 7 denied."`)
		page.Click("button", "A bucket each")
		page.Fill("textbox", "Capacity, tokens", "0")
		page.Wait("a mistake is told beside the field", `/got 0/.test(document.querySelector("#e-s-capacity").textContent) && document.querySelector("#s-capacity").getAttribute("aria-invalid") === "true"`)
		page.Click("button", "A bucket each")
		page.Wait("a preset is right, and its fields too", `!document.querySelector("#settings [aria-invalid]") && document.querySelector("#e-s-capacity").textContent === "" && document.querySelector("#s-capacity").value === "10"`)
		page.Fill("textbox", "Capacity, tokens", "4")
		page.Wait("it holds at once", `document.querySelectorAll("#f-yours .slot").length === 8 && document.querySelector("#e-s-capacity").textContent === ""`)
		page.Fill("textbox", "Every", "15 min")
		page.Wait("intervals are words", `/each 15 minutes/.test(document.querySelector("#f-yours").textContent)`)
		page.Fill("combobox", "A bucket for", "client")
		page.Wait("one bucket for all", `document.querySelectorAll("#f-yours .bucket").length === 1 && /Everybody/.test(document.querySelector("#f-yours").textContent)`)
		page.Fill("spinbutton", "at once", "6")
		page.Click("button", "Send them")
		page.Wait("the burst is summed up", `document.querySelector("#v-yours").textContent === "6 at once: 4 allowed, 2 denied."`)
	})
}
