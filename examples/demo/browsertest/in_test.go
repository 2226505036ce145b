package browsertest

import "github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"

// number is how many tokens the first picture shows, as a number.
const number = `Number(document.querySelector("#picture .number").textContent)`

// in opens the demo's page in a browser, and waits until the server has greeted it.
func (p *process) in(b *browser.Browser, look browser.Look) *browser.Page {
	p.t.Helper()
	page := b.Open(p.t, p.url, look)
	if p.files != nil {
		p.files.page = page
	}
	page.Wait("the page is filled", `/uckets/.test(document.querySelector("#place").textContent) && document.querySelector("#picture .number").textContent !== ""`)
	return page
}

// reload loads the page again, if its demo outlives it.
func (p *process) reload(page *browser.Page) {
	p.t.Helper()
	if p.files == nil {
		page.Load()
	}
}

// through is the name of the framework that serves a request which asks for another one.
func (p *process) through(framework string) string {
	if p.files != nil {
		return "net/http"
	}
	return framework
}

// played opens the page when its first burst was played, on a bucket that does not refill while a test looks.
func (p *process) played(b *browser.Browser, look browser.Look) *browser.Page {
	p.t.Helper()
	p.set(hour)
	page := p.in(b, look)
	page.Wait("the first burst has been played", number+` === 0 && document.querySelectorAll("#rows tr").length === 15`)
	return page
}

// full is played, with a bucket that was filled again.
func (p *process) full(b *browser.Browser, look browser.Look) *browser.Page {
	p.t.Helper()
	page := p.played(b, look)
	page.Click("button", "Fill the bucket")
	page.Wait("the bucket is full", number+` === 10`)
	return page
}
