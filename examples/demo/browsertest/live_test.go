package browsertest

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

// Several tabs see the same run, and one that is closed stops nothing.
func TestTabsSeeTheSame(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := start(t)
		one := p.full(in, browser.Look{})
		other := p.in(in, browser.Look{})
		one.Click("button", "Send 1")
		for _, page := range []*browser.Page{one, other} {
			page.Wait("it has lost a token", number+` === 9`)
		}
		other.Focus("slider", "Capacity")
		other.Key("5")
		one.Wait("the other tab's limit is shown", `/^Five tokens/.test(document.querySelector("h1").textContent) && document.querySelectorAll("#picture .slot").length === 5`)
		one.Click("button", "Flood both replicas")
		other.Wait("it has begun", `document.querySelectorAll("#f-share .pill").length > 0`)
		one.Load()
		other.Wait("it ends although its page was loaded again", `/of 105 were allowed, without/.test(document.querySelector("#v-share").textContent)`)
	})
}

// A demo that is killed and started again: the page says that it stands still, and goes on by itself.
func TestKilledAndStartedAgain(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := start(t)
		page := p.played(in, browser.Look{})
		p.kill()
		page.Wait("the page says that it does not know", `!document.querySelector("#banner").hidden && document.body.classList.contains("lost")`)
		again := startAt(t, p.addr, "-redis-host", "")
		again.set(hour)
		page.Wait("it goes on", `document.querySelector("#banner").hidden && `+number+` === 10 && document.querySelector("#v-drain").textContent === ""`)
		page.Click("button", "Send 1")
		page.Wait("and works", number+` === 9`)
		if n := len(again.log("drain")); n != 1 {
			t.Errorf("%d requests were sent: the page does not play again by itself", n)
		}
	})
}

// A Redis that is away is told of, and the page does not play by itself.
func TestARedisThatGoesAway(t *testing.T) {
	flags, kill := redisServer(t)
	p := start(t, flags...)
	page := p.in(browser.Chromium, browser.Look{})
	page.Wait("the first burst has been played", `document.querySelectorAll("#rows tr").length === 15`)
	kill()
	page.WaitText("by this process alone")
	page.Click("button", "Send 1")
	page.Wait("requests are still answered", `document.querySelectorAll("#rows tr").length === 16`)
	other := start(t)
	other.post("/api/redis", map[string]any{"on": false})
	second := other.in(browser.Chromium, browser.Look{})
	second.Wait("the switch shows what is so", `document.querySelector("#redis").getAttribute("aria-checked") === "false"`)
}
