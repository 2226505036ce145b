package browsertest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// dropsSeen keeps count of the drops that appear.
const dropsSeen = `(() => {
	window.testDrops = {allowed: 0, denied: 0, token: 0};
	new MutationObserver(list => list.forEach(m => m.addedNodes.forEach(e => {
		for (const kind in testDrops) if (e.classList?.contains(kind)) testDrops[kind]++;
	}))).observe(document.querySelector(".scene"), {subtree: true, childList: true});
})()`

func TestTheStoryOnArrival(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open(func(b *tab) {
		_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `window.testMoves = []; document.addEventListener("animationstart", e => testMoves.push(e.animationName), true);`,
		})
		b.must("watch animations", err)
	})
	b.wait("the idea is told, and the rule", `/A request takes a token,\s*tokens come back,\s*and empty means 429\./.test(document.querySelector(".idea").textContent.replace(/\s+/g, " ")) &&
		document.querySelector(".bucket .rule").textContent === "+1 token every 1 s"`)
	b.wait("each picture moves within ten seconds", `["falls", "takes", "fills", "bounces"].every(name => testMoves.includes(name))`)
}

func TestDropsFallAndBounce(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	js[any](b, dropsSeen)
	b.click("#burst")
	b.wait("ten fall in, five bounce off, and tokens leave", `testDrops.allowed === 10 && testDrops.denied === 5 && testDrops.token > 0`)
	b.wait("they are gone after", `document.querySelectorAll(".air > *").length === 0`)
}

func TestResultsStandBesideTheButtons(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.fill("#framework", "chi")
	b.click("#send")
	b.wait("the answer is shown", `/^200 OK from chi/.test(document.querySelector("#answer").textContent) && /X-RateLimit-Remaining: 9/.test(document.querySelector("#answer").textContent)`)
	b.fill("#burst-n", "14")
	b.click("#burst")
	b.wait("the burst is summed up", `/^9 allowed, 5 denied, retry after `+nearlyAnHour+` s$/.test(document.querySelector("#said-burst").textContent)`)
	b.wait("the last answer is a denial", `/^429 Too Many Requests/.test(document.querySelector("#answer").textContent) && /Retry-After: `+nearlyAnHour+`(?!\d)/.test(document.querySelector("#answer").textContent)`)
	b.click("#reset")
	b.wait("what was said goes with the run", `["#answer", "#said-burst"].every(s => document.querySelector(s).textContent === "")`)
}

// A scenario is played with the bucket on the screen, and its verdict stands beside it.
func TestAScenarioPlaysInSight(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	b.verdict("burst")
	if !js[bool](b, `(() => {
		const bucket = document.querySelector(".bucket svg").getBoundingClientRect(), verdict = document.querySelector("#verdict").getBoundingClientRect();
		return bucket.top >= 0 && bucket.bottom <= innerHeight && verdict.left >= bucket.right && verdict.top < bucket.bottom && verdict.bottom > bucket.top;
	})()`) {
		t.Error("the verdict does not stand beside a bucket that is in sight")
	}
}

func TestThreeModesSideBySide(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	b.click("#scene-modes")
	b.wait("each mode has a bucket", `[...document.querySelectorAll("#modes .whose")].map(e => e.textContent).join() === "continuous,stepped,aligned"`)
	b.click("#use-steps")
	b.wait("the limit is in force", `[...document.querySelectorAll("#modes .rule")].every(e => /10 tokens every 10 s/.test(e.textContent))`)
	js[any](b, dropsSeen)
	b.click("#burst")
	b.wait("all three have decided the same requests", `[...document.querySelectorAll("#modes .sum")].every(e => e.textContent.match(/\d+/g).reduce((n, m) => n + Number(m), 0) === 15)`)
	b.wait("drops fall into each", `testDrops.allowed + testDrops.denied >= 30`)
	b.click("#scene-live")
	b.wait("the live bucket is back", `document.querySelector("#modes .bucket") === null && document.querySelector("#buckets .bucket").checkVisibility()`)
}

func TestTwoReplicasWithoutRedis(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	other := p.open()
	if _, err := exec.LookPath("redis-server"); err != nil {
		b.click("#scene-replicas")
		b.wait("the page says how to get one", `/redis-server/.test(document.querySelector("#replicas-note").textContent)`)
		return
	}
	levels := `[...document.querySelectorAll("#buckets .bucket .level")].map(e => Math.floor(e.dataset.tokens)).join()`
	b.click("#scene-replicas")
	for _, tab := range []*tab{b, other} {
		tab.wait("two replicas are shown", levels+` === "10,10"`)
	}
	b.fill("#burst-n", "4")
	b.click("#burst")
	b.wait("both see one bucket", levels+` === "6,6" && /agree/.test(document.querySelector("#drift").textContent)`)
	b.click("#redis")
	b.wait("each decides alone", `document.querySelectorAll(".bucket.alone").length === 2 && `+levels+` === "10,10"`)
	b.fill("#burst-n", "30")
	b.click("#burst")
	b.wait("together they allow twice the limit", `document.querySelector("#said-burst").textContent.startsWith("20 allowed, 10 denied")`)
	b.wait("the chart has a band", `!document.querySelector("#legend-alone").hidden`)
	b.click("#redis")
	b.wait("they meet again", `document.querySelectorAll(".bucket.alone").length === 0 && `+levels+` === "6,6"`)
	b.click("#scene-live")
	for _, tab := range []*tab{b, other} {
		tab.wait("one replica is left", levels+` === "10"`)
	}
}

func TestPresetsAndCodeToCopy(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	b.click(`[data-preset="login"]`)
	b.wait("the form has it", `document.querySelector($[0]).value === "900000" && /15 min/.test(document.querySelector("#means-interval_ms").textContent)`, field("interval_ms"))
	b.wait("so has the program", `/Capacity: 5, RefillRate: 5, RefillInterval: 15 \* time.Minute/.test(document.querySelector("#code-go").textContent) && /ginlimit.ByIP/.test(document.querySelector("#code-go").textContent)`)
	b.fill("#framework", "echo")
	b.fill("#user", "bob")
	b.wait("they are for the framework and the user", `/echolimit/.test(document.querySelector("#code-go").textContent) && /X-User: bob.*echo\/limited/s.test(document.querySelector("#code-curl").textContent)`)
	js[any](b, `Object.defineProperty(navigator, "clipboard", {value: {writeText: async text => { window.testCopied = text }}})`)
	b.click("#copy-curl")
	b.wait("it is copied", `testCopied === document.querySelector("#code-curl").textContent && document.querySelector("#copied-curl").textContent !== ""`)
	out, err := exec.Command("sh", "-c", js[string](b, `testCopied`)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "X-Ratelimit") && !strings.Contains(string(out), "X-RateLimit") {
		t.Errorf("what was copied does not run: %v\n%s", err, out)
	}
	b.click(`[data-preset="model"]`)
	b.wait("a limit counts tokens of a model", `document.querySelector(".bucket .counts").textContent === "counts tokens" && document.querySelector("#copied-curl").textContent === ""`)
}

// The chart counts in tokens, an owner keeps its colour, and long names are cut off.
func TestTheChartStaysTrue(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["key"] = "user"
	p.set(s)
	b := p.open()
	p.ask("gin", "mia")
	b.wait("mia has a bucket", `document.querySelector(".bucket[data-key$='mia']")`)
	colour := `document.querySelector(".bucket[data-key$='" + $[0] + "'] .key").dataset.owner`
	before := js[string](b, colour, "mia")
	for _, user := range []string{"abe", "cat", "a-name-that-is-much-too-long-to-be-written-beside-a-curve-of-the-chart"} {
		p.ask("gin", user)
	}
	b.wait("all are there", `document.querySelectorAll(".bucket").length === 6`)
	if after := js[string](b, colour, "mia"); after != before {
		t.Errorf("mia's colour changed from %s to %s when others came", before, after)
	}
	if n := js[int](b, `new Set([...document.querySelectorAll(".bucket .key")].map(e => e.dataset.owner)).size`); n != 6 {
		t.Errorf("six owners have %d colours", n)
	}
	if !js[bool](b, `[...document.querySelectorAll(".bucket .owner")].every(e => e.getBoundingClientRect().width <= 240)`) {
		t.Error("a long name is not clipped")
	}
	s["capacity"] = 1000
	p.set(s)
	b.wait("the past keeps its tokens beside a larger bucket", `(async () => {
		const {view} = await import("/view.js");
		const past = [...view.past.values()].flat();
		return past.some(s => s.limits[0].capacity === 10 && s.limits[0].tokens <= 10) && past.some(s => s.limits[0].capacity === 1000);
	})()`)
}
