package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Browsers open six connections to a server: with a stream for each tab, six tabs would leave none for requests.
func TestManyTabsShareAStream(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	tabs := []*tab{p.open()}
	for range 6 {
		tabs = append(tabs, tabs[0].beside())
	}
	leads := func() (n int) {
		for _, b := range tabs {
			if js[bool](b, `(await import("/stream.js")).stream.source !== null`) {
				n++
			}
		}
		return n
	}
	eventually(t, "one of the tabs has the stream", func() bool { return leads() == 1 })
	tabs[6].click("#send")
	for _, b := range tabs {
		b.waitRows(200, 1)
		b.waitCount("#m-admitted", 1)
		b.wait("the bucket has lost a token", `Math.floor(`+tokens+`) === 9`)
	}
	_, err := chromedp.Call(tabs[0].ctx, page.Navigate, page.NavigateParams{URL: "about:blank"})
	tabs[0].must("leave", err)
	tabs = tabs[1:]
	eventually(t, "another tab has the stream", func() bool { return leads() == 1 })
	tabs[2].click("#send")
	for _, b := range tabs {
		b.waitRows(200, 2)
		b.waitCount("#m-admitted", 2)
	}
}

// Pages of another machine without TLS have no locks.
func TestATabWithoutLocksHasAStreamOfItsOwn(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	b := p.open(func(b *tab) {
		_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `Object.defineProperty(Navigator.prototype, "locks", {value: undefined})`,
		})
		b.must("hide the locks", err)
	})
	if !js[bool](b, `navigator.locks === undefined && (s => s.source !== null && s.channel === null)((await import("/stream.js")).stream)`) {
		t.Error("it has no stream of its own")
	}
	b.click("#send")
	b.waitRows(200, 1)
}
