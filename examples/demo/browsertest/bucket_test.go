package browsertest

import "testing"

func TestBucketRefillsSmoothly(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["interval_ms"] = 6000
	p.set(s)
	b := p.open()
	b.fill("#burst-n", "12")
	b.click("#burst")
	b.wait("something is denied", `document.querySelector("#log tr[data-status='429']")`)
	p.quiet()
	asked := p.all()
	js[any](b, `(() => {
		const current = () => Number(document.querySelector(".bucket .level").dataset.tokens);
		window.testLevels = [current()];
		new MutationObserver(() => { if (current() !== testLevels.at(-1)) testLevels.push(current()) })
			.observe(document.body, {subtree: true, childList: true, attributes: true, attributeFilter: ["data-tokens"]});
	})()`)
	// The server tells no level that follows from the last: the page computes them. A busy machine draws few frames a second.
	b.wait("the level passes many values on the way to a token", `[0, 1, 2, 3, 4, 5, 6, 7, 8].some(n => testLevels.filter(l => l > n && l < n + 1).length >= 24)`)
	if falls := js[[]float64](b, `testLevels.filter((l, i) => i > 0 && l < testLevels[i-1] - 0.1)`); len(falls) > 0 {
		t.Errorf("the level fell while nothing was taken: to %v", falls)
	}
	if n := p.all(); n != asked {
		t.Errorf("%d requests were sent meanwhile", n-asked)
	}
}

func TestCountdown(t *testing.T) {
	t.Parallel()
	p := start(t)
	s := slow()
	s["interval_ms"] = 12_000 // longer than a busy machine takes to show the first figure
	p.set(s)
	b := p.open()
	js[any](b, `(() => {
		const c = document.querySelector("#countdown"), text = () => c.textContent.trim();
		window.testSaid = [];
		new MutationObserver(() => {
			if (text() !== (testSaid.at(-1) || {text: ""}).text) testSaid.push({text: text(), tokens: Number(document.querySelector(".bucket .level").dataset.tokens)});
		}).observe(c, {subtree: true, childList: true, characterData: true, attributes: true});
	})()`)
	b.fill("#burst-n", "12")
	b.click("#burst")
	b.wait("something is denied", `document.querySelector("#log tr[data-status='429']")`)
	b.wait("it counts down and ends", `testSaid.length > 1 && testSaid.at(-1).text === ""`)
	said := js[[]struct {
		Text   string
		Tokens float64
	}](b, `testSaid`)
	if len(said) < 5 {
		t.Errorf("the countdown said no more than %v", said)
	}
	if end := said[len(said)-1]; end.Tokens < 0.9 {
		t.Errorf("the countdown ended with %v tokens in the bucket", end.Tokens)
	}
	b.click("#send")
	b.waitRows(200, 11)
}

// Requests are told in the order in which they end, so one that was allowed may follow one that was denied after it.
func TestARequestUnderWayDoesNotEndTheCountdown(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	b.fill("#burst-n", "12")
	b.click("#burst")
	b.wait("something is denied", `document.querySelector("#log tr[data-status='429']")`)
	p.quiet()
	b.wait("it counts down", `document.querySelector("#countdown").textContent !== ""`)
	hear := `(async () => {
		const {view} = await import("/view.js"), {stream} = await import("/stream.js"), {serverNow} = await import("/clock.js");
		const at = $[0] ? view.denied.at - 1 : serverNow();
		stream.hear.requests({list: [{id: view.lastID + 1, at, framework: "gin", user: "", key: view.denied.id, status: 200,
			allowed: true, micros: 100, headers: [], cost: 1, source: "store"}], dropped: {}});
		return view.denied !== null;
	})()`
	if !js[bool](b, hear, true) {
		t.Error("a request that began before the 429 ended the countdown")
	}
	if js[bool](b, hear, false) {
		t.Error("a request that began after the 429 and was allowed did not end the countdown")
	}
}
