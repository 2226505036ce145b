package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// watched counts what a page asks of its browser.
func watched(b *tab) {
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.testCalls = {};
		for (const name of ["requestAnimationFrame", "setTimeout", "setInterval", "fetch"]) {
			const real = window[name].bind(window);
			window[name] = (...a) => { testCalls[name] = (testCalls[name] ?? 0) + 1; return real(...a) };
		}
		window.testRunning = 0; // intervals
		const {setInterval: begin, clearInterval: end} = window;
		window.setInterval = (...a) => { testRunning++; return begin(...a) };
		window.clearInterval = (id) => { if (id) testRunning--; end.call(window, id) };`})
	b.must("watch the calls", err)
}

// While nothing happens the page has no timers, draws no frames and asks for nothing.
func TestAnIdlePageCostsNothing(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open(watched)
	still := func(when string) {
		t.Helper()
		b.wait(when+" it comes to rest", `(async () => {
			const before = JSON.stringify(testCalls), since = performance.now(), ticks = new MessageChannel();
			await new Promise(done => { // a wait by none of the timers that are counted
				ticks.port1.onmessage = () => performance.now() - since > 1500 ? done() : ticks.port2.postMessage(0);
				ticks.port2.postMessage(0);
			});
			const same = JSON.stringify(testCalls) === before;
			return same && document.getAnimations().length === 0 && testRunning === 0;
		})()`)
	}
	still("after its arrival")
	b.fill("#burst-n", "3")
	b.click("#burst")
	b.waitRows(200, 3)
	still("when the bucket is full again")
	before := js[string](b, `document.querySelector(".level .number").textContent`)
	if before != "10" {
		t.Errorf("it rests before the bucket is full: %s", before)
	}
}

func TestTrafficThatStopsWithItsTabSaysSo(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.click("#steady")
	b.waitRows(200, 1)
	js[any](b, `(() => {
		Object.defineProperty(document, "hidden", {value: true, configurable: true});
		document.dispatchEvent(new Event("visibilitychange"));
		Object.defineProperty(document, "hidden", {value: false, configurable: true});
		document.dispatchEvent(new Event("visibilitychange"));
	})()`)
	b.wait("it says why it stopped", `/Stopped: this page was hidden/.test(document.querySelector("#why-steady").textContent) && document.querySelector("#steady").getAttribute("aria-pressed") === "false"`)
	b.click("#steady")
	b.wait("that is gone with the next start", `document.querySelector("#why-steady").textContent === ""`)
}
