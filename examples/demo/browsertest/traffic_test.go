package browsertest

import (
	"testing"

	"github.com/tokenbucket-go/ratelimit/examples/demo/browsertest/browser"
)

func TestSteady(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := start(t)
		p.set(slow())
		page := p.in(in, browser.Look{})
		pressed := `document.querySelector("#steady").getAttribute("aria-pressed") === $[0]`
		page.Fill("spinbutton", "Requests a second", "20")
		page.Wait("it is off", pressed, "false")
		page.Click("button", "Send steadily")
		page.Wait("it is on", pressed, "true")
		page.Wait("requests come one after the other", `document.querySelectorAll("#log tr[data-id]").length >= 12`)
		page.Click("button", "Send steadily")
		page.Wait("it is off again", pressed, "false")
		p.quiet()
	})
}

func TestFlood(t *testing.T) {
	browser.Each(t, func(t *testing.T, in *browser.Browser) {
		p := start(t)
		p.set(slow())
		page := p.in(in, browser.Look{})
		for _, c := range []struct {
			name        string
			hold, letGo func()
		}{
			{"pointer", func() { page.Press("button", "Hold to flood") }, page.Release},
			{"pointer that goes elsewhere", func() { page.Press("button", "Hold to flood") }, func() { page.MoveAway(); page.Release() }},
			{"Space", func() { page.Focus("button", "Hold to flood"); page.KeyDown("Space") }, func() { page.KeyUp("Space") }},
			{"Enter", func() { page.Focus("button", "Hold to flood"); page.KeyDown("Enter") }, func() { page.KeyUp("Enter") }},
		} {
			t.Run(c.name, func(t *testing.T) {
				p.t, page.T = t, t
				page.Click("button", "Fill all buckets")
				page.Wait("nothing is counted", `document.querySelector("#m-denied").textContent === "0"`)
				c.hold()
				eventually(t, "a hundred requests have come", func() bool { return p.all() >= 100 })
				c.letGo()
				p.quiet()
				m := p.hello().Metrics
				eventually(t, "the page shows what the server has denied", func() bool { // also of requests that were long under way
					m = p.hello().Metrics
					return browser.JS[int](page, `Number(document.querySelector("#m-denied").textContent.replace(/[^0-9]/g, ""))`) == m.Denied
				})
				if m.Admitted != 10 || m.Errors != 0 {
					t.Errorf("%d were admitted of a bucket of 10, %d failed", m.Admitted, m.Errors)
				}
			})
			p.t, page.T = t, t
		}
	})
}

const center = `(r => ({x: r.x + r.width / 2, y: r.y + r.height / 2}))(document.querySelector($[0]).getBoundingClientRect())`

func (b *tab) focus(selector string) {
	b.t.Helper()
	js[any](b, `document.querySelector($[0]).focus()`, selector)
}
