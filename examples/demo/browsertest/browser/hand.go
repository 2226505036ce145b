package browser

import (
	"fmt"
	"math"
)

// Elements are named as a user perceives them: by their role, such as "button", "slider" or "heading", and their
// accessible name. A name may be a part of the element's, if that names one visible element alone.

// Text is the visible text of an element, with single blanks.
func (p *Page) Text(role, name string) (text string) {
	p.T.Helper()
	p.poll(what("there is", role, name), func() (bool, string) {
		err := p.eval(`browsertest.text(browsertest.find(...$))`, &text, []any{role, name})
		return err == nil, fmt.Sprint(err)
	})
	return text
}

func what(verb, role, name string) string { return fmt.Sprintf("%s a %s %q", verb, role, name) }

// Click presses and releases the mouse on an element.
func (p *Page) Click(role, name string) {
	p.T.Helper()
	p.meet(role, name, "click", func(x, y int) { p.mouse(move(x, y), down, up) })
}

// Hover moves the mouse to an element.
func (p *Page) Hover(role, name string) {
	p.T.Helper()
	p.meet(role, name, "pointermove", func(x, y int) { p.mouse(move(x, y-1), move(x, y)) })
}

// Drag drags an element by so many pixels, in ten steps and one command: between commands chromedriver loses what
// setPointerCapture holds.
func (p *Page) Drag(role, name string, dx, dy int) {
	p.T.Helper()
	p.meet(role, name, "pointerdown", func(x, y int) {
		actions := []action{move(x, y), down}
		for i := 1; i <= 10; i++ {
			actions = append(actions, move(x+dx*i/10, y+dy*i/10), action{"type": "pause", "duration": 20})
		}
		p.mouse(append(actions, up)...)
	})
}

// MoveAway moves the mouse to the page's corner.
func (p *Page) MoveAway() {
	p.T.Helper()
	p.mouse(move(1, 1))
}

// meet does something with the mouse on an element until the event it leads to comes there: the page may move.
func (p *Page) meet(role, name, event string, do func(x, y int)) {
	p.T.Helper()
	p.poll(what("the mouse meets", role, name), func() (bool, string) {
		var at struct{ X, Y float64 }
		if err := p.eval(`browsertest.aim(...$)`, &at, []any{role, name, event}); err != nil {
			return false, err.Error()
		}
		do(int(math.Round(at.X)), int(math.Round(at.Y)))
		var met bool
		if err := p.eval(`browsertest.met`, &met, nil); err != nil {
			return false, err.Error()
		}
		return met, "no " + event + " came there"
	})
}

type action map[string]any

var (
	down = action{"type": "pointerDown", "button": 0}
	up   = action{"type": "pointerUp", "button": 0}
)

func move(x, y int) action {
	return action{"type": "pointerMove", "x": x, "y": y, "duration": 0, "origin": "viewport"}
}

func (p *Page) mouse(actions ...action) {
	p.T.Helper()
	p.act(map[string]any{"type": "pointer", "id": "mouse", "parameters": map[string]string{"pointerType": "mouse"}, "actions": actions})
}

func (p *Page) act(source map[string]any) {
	p.T.Helper()
	p.must("perform", p.session.call("PerformActions", map[string]any{"actions": []any{source}}, nil))
}
