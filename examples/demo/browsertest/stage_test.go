package browsertest

import (
	"testing"
)

// idle tells whether no scenario runs.
const idle = `(await import("/scenarios.js")).stage.running === ""`

// verdict plays a scenario until there is a verdict: on a machine that does much else there may be none at first.
func (b *tab) verdict(id string) (ok, text string) {
	b.t.Helper()
	for range 5 {
		js[any](b, `document.querySelector("#verdict").replaceChildren()`) // that of another run
		b.click(`[data-scenario="` + id + `"] button.run`)
		b.wait("the verdict is there", idle+` && document.querySelector("#playing").dataset.shown === $[0] && document.querySelector("#verdict").textContent.trim()`, id)
		ok = js[string](b, `document.querySelector("#verdict").dataset.ok`)
		text = js[string](b, `document.querySelector("#verdict").textContent.trim()`)
		if ok != "none" {
			break
		}
		b.t.Log(text)
	}
	return ok, text
}

func TestControlsWaitWhileAScenarioRuns(t *testing.T) {
	t.Parallel()
	_, b := open(t)
	b.fill(field("capacity"), "33") // typed, and not applied
	type seen struct {
		Disabled         []string
		Focus, After, OK string
		Note, Text       string
	}
	var got seen
	for range 5 { // it takes four seconds, which may be over before Stop comes there
		got = js[seen](b, `(async () => {
			const $$ = (s) => document.querySelector(s), card = "[data-scenario='modes'] ", got = {}, {stage} = await import("/scenarios.js");
			const until = async (f) => { while (!f()) await new Promise(r => setTimeout(r, 5)) };
			$$(card + ".run").focus();
			$$(card + ".run").click();
			await until(() => stage.running === "modes");
			got.disabled = ["send", "burst", "steady", "flood", "reset", "apply"].filter(id => $$("#" + id).getAttribute("aria-disabled") === "true");
			got.focus = document.activeElement.className;
			got.note = $$("#send-note").textContent;
			for (const id of ["send", "burst", "reset", "apply"]) $$("#" + id).click();
			$$("#stop").focus();
			$$("#stop").click();
			await until(() => stage.running === "");
			got.after = document.activeElement.className;
			got.ok = $$("#verdict").dataset.ok;
			got.text = $$("#verdict").textContent;
			return got;
		})()`)
		if got.OK == "none" {
			break
		}
	}
	if len(got.Disabled) != 6 {
		t.Errorf("while it runs only these are off: %q", got.Disabled)
	}
	if got.Focus != "run" || got.After != "run" {
		t.Errorf("the focus is on %q while it runs and on %q when it was stopped, want the Run button", got.Focus, got.After)
	}
	if got.Note == "" {
		t.Error("nothing says why nothing can be sent")
	}
	if got.OK != "none" || got.Text == "" {
		t.Errorf("when it was stopped the verdict is %s: %q", got.OK, got.Text)
	}
	b.wait("all can be used again", `["send", "burst", "steady", "flood", "reset", "apply"].every(id => document.getElementById(id).getAttribute("aria-disabled") === "false")`)
	b.wait("nothing is left of what was said meanwhile", `["#send-note", "#err-form", "#scenario-note"].every(s => document.querySelector(s).textContent === "") && document.querySelector("#elsewhere").hidden`)
	if got := js[string](b, `document.querySelector($[0]).value`, field("capacity")); got != "33" {
		t.Errorf("what was typed is gone: the field holds %q", got)
	}
}

func TestDemosOnOneRedisDoNotSpoilEachOthersScenarios(t *testing.T) {
	t.Parallel()
	flags := onRedis(t)
	first, second := start(t, flags...).open(), start(t, flags...).open()
	for _, id := range []string{"users", "burst"} {
		second.click(`[data-scenario="` + id + `"] button.run`)
		if ok, text := first.verdict(id); ok != "true" {
			t.Errorf("%s: the verdict is %s: %q", id, ok, text)
		}
		second.wait("the other's is over", idle+` && document.querySelector("#playing").dataset.shown === $[0] && document.querySelector("#verdict").textContent`, id)
		if ok := js[string](second, `document.querySelector("#verdict").dataset.ok`); ok == "false" {
			t.Errorf("%s: the other's is not as expected", id)
		}
	}
}

// The timeline, and the sentence below it, must count what the metrics do.
func TestAFloodIsCountedWhole(t *testing.T) {
	t.Parallel()
	p := start(t)
	b := p.open()
	js[any](b, `(async () => {
		const {view} = await import("/view.js"), set = view.bins.set;
		window.testBins = {};
		view.bins.set = function (bin, sums) {
			testBins[bin] = sums;
			return set.call(this, bin, sums);
		};
	})()`)
	b.verdict("flood")
	p.quiet()
	m := p.hello().Metrics
	b.wait("all are counted", `["allowed", "denied", "error"].every((kind, i) => Object.values(testBins).reduce((n, b) => n + b[kind], 0) === $[i])`, m.Admitted, m.Denied, m.Errors)
	if m.Denied < 300 {
		t.Errorf("%d were denied: no flood", m.Denied)
	}
}

func TestWithoutRedisThePageSaysWhoDecides(t *testing.T) {
	t.Parallel()
	flags, stop := redisServer(t)
	p := start(t, flags...)
	p.set(slow())
	b := p.open()
	b.wait("the buckets are in Redis", `document.querySelector("#live").dataset.alone === "false"`)
	stop()
	b.wait("the page says that this process decides", `document.querySelector("#live").dataset.alone === "true" && /alone/.test(document.querySelector("#store-text").textContent) && document.querySelector(".bucket.alone")`)
	b.fill("#burst-n", "30")
	b.click("#burst")
	for _, status := range []string{"200", "429"} {
		b.wait(status+" tells who decided", `/by this process alone/.test(document.querySelector("#log tr[data-status='" + $[0] + "']").textContent)`, status)
	}
}
