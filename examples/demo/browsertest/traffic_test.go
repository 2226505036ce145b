package browsertest

import (
	"testing"

	"github.com/chromedp/cdproto/input"
)

func TestSteady(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	pressed := `document.querySelector("#steady").getAttribute("aria-pressed") === $[0]`
	b.fill("#steady-rate", "20")
	b.wait("it is off", pressed, "false")
	b.click("#steady")
	b.wait("it is on", pressed, "true")
	b.wait("requests come one after the other", `document.querySelectorAll("#log tr[data-id]").length >= 12`)
	b.click("#steady")
	b.wait("it is off again", pressed, "false")
	p.quiet()
}

func TestFlood(t *testing.T) {
	t.Parallel()
	p, b := open(t)
	for _, c := range []struct {
		name        string
		hold, letGo func(*tab)
	}{
		{"pointer", func(b *tab) { b.press("#flood") }, func(b *tab) { b.mouse(input.DispatchMouseEventTypeMouseReleased, js[xy](b, center, "#flood")) }},
		{"pointer that goes elsewhere", func(b *tab) { b.press("#flood") }, func(b *tab) {
			b.mouse(input.DispatchMouseEventTypeMouseMoved, xy{5, 5})
			b.mouse(input.DispatchMouseEventTypeMouseReleased, xy{5, 5})
		}},
		{"Space", func(b *tab) { b.focus("#flood"); b.key(' ', input.DispatchKeyEventTypeKeyDown) }, func(b *tab) { b.key(' ', input.DispatchKeyEventTypeKeyUp) }},
		{"Enter", func(b *tab) { b.focus("#flood"); b.key('\r', input.DispatchKeyEventTypeKeyDown) }, func(b *tab) { b.key('\r', input.DispatchKeyEventTypeKeyUp) }},
		{"focus that goes elsewhere", func(b *tab) { b.focus("#flood"); b.key(' ', input.DispatchKeyEventTypeKeyDown) }, func(b *tab) { b.focus("#burst-n") }}, // the last, for Space stays down
	} {
		t.Run(c.name, func(t *testing.T) {
			p.t, b.t = t, t
			b.click("#reset")
			b.waitCount("#m-denied", 0)
			c.hold(b)
			eventually(t, "a hundred requests have come", func() bool { return p.all() >= 100 })
			c.letGo(b)
			p.quiet()
			m := p.hello().Metrics
			eventually(t, "the page shows what the server has denied", func() bool { // also of requests that were long under way
				m = p.hello().Metrics
				return js[int](b, `Number(document.querySelector("#m-denied").textContent.replace(/[^0-9]/g, ""))`) == m.Denied
			})
			if m.Admitted != 10 || m.Errors != 0 {
				t.Errorf("%d were admitted of a bucket of 10, %d failed", m.Admitted, m.Errors)
			}
			if n := js[int](b, `document.querySelectorAll("#log tr").length`); n > 1000 {
				t.Errorf("the log holds %d rows: it grows without bound", n)
			}
		})
		p.t, b.t = t, t
	}
}

const center = `(r => ({x: r.x + r.width / 2, y: r.y + r.height / 2}))(document.querySelector($[0]).getBoundingClientRect())`

func (b *tab) focus(selector string) {
	b.t.Helper()
	js[any](b, `document.querySelector($[0]).focus()`, selector)
}
