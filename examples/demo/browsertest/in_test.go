package browsertest

import "github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"

// in opens the demo's page in a browser, and waits until the server has greeted it.
func (p *process) in(b *browser.Browser, look browser.Look) *browser.Page {
	p.t.Helper()
	page := b.Open(p.t, p.url, look)
	page.Wait("the page is filled", `document.querySelector("#store-text").textContent.includes("uckets") && document.querySelector(".level[data-tokens]")`)
	return page
}
