package browser

import (
	"cmp"
	"strings"
)

// keys are those that have a name and no letter: https://www.w3.org/TR/webdriver2/#keyboard-actions.
var keys = map[string]string{
	"Backspace": "\uE003", "Tab": "\uE004", "Enter": "\uE007", "Escape": "\uE00C", "End": "\uE010", "Home": "\uE011", "ArrowUp": "\uE013", "ArrowDown": "\uE015", "ArrowRight": "\uE014", "PageUp": "\uE00E",
}

// Key strokes keys one after the other, such as "Tab" or "a".
func (p *Page) Key(names ...string) {
	p.T.Helper()
	actions := []action{} // WebDriver refuses null
	for _, name := range names {
		value := cmp.Or(keys[name], name)
		actions = append(actions, action{"type": "keyDown", "value": value}, action{"type": "keyUp", "value": value})
	}
	p.act(map[string]any{"type": "key", "id": "keyboard", "actions": actions})
}

// Fill types into a field in place of what it holds, or chooses of a select, or moves a slider.
func (p *Page) Fill(role, name, value string) {
	p.T.Helper()
	p.poll(what("there is", role, name), func() (bool, string) {
		var typed bool
		if err := p.eval(`browsertest.choose(...$)`, &typed, []any{role, name, value}); err != nil {
			return false, err.Error()
		}
		if typed {
			if value == "" {
				p.Key("Backspace")
			}
			p.Key(strings.Split(value, "")...)
		}
		var got string
		if err := p.eval(`browsertest.find(...$).value`, &got, []any{role, name}); err != nil {
			return false, err.Error()
		}
		return got == value, "it holds " + got
	})
}

// Focus gives an element the focus.
func (p *Page) Focus(role, name string) {
	p.T.Helper()
	p.Wait(what("there is", role, name), `(e => { e.focus(); return document.activeElement === e })(browsertest.find(...$))`, role, name)
}

// Reach presses Tab, from the page's begin on, until the element has the focus. At the page's end some browsers go to
// their own controls.
func (p *Page) Reach(role, name string) {
	p.T.Helper()
	JS[any](p, `(first => {
		first.tabIndex = -1;
		document.body.prepend(first);
		first.focus();
		first.remove(); // its place is where Tab goes on
	})(document.createElement("span"))`)
	for range 200 {
		p.Key("Tab")
		if JS[bool](p, `document.activeElement === browsertest.find(...$)`, role, name) {
			return
		}
	}
	p.T.Fatalf("Tab does not come to the %s %q", role, name)
}
