package browsertest

import (
	"reflect"
	"testing"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.set(slow())
	before := p.hello()
	b := p.open()
	for _, s := range before.Scenarios {
		t.Run(s.ID, func(t *testing.T) {
			if !s.Available {
				t.Skip(s.Reason)
			}
			ok, text := b.verdict(s.ID)
			if ok != "true" || text == "" {
				t.Errorf("the verdict is %s: %q", ok, text)
			}
			if n := js[int](b, `document.querySelectorAll("#log tr[data-id]").length`); n == 0 {
				t.Error("its requests are not in the log")
			}
			if after := p.hello().Settings; !reflect.DeepEqual(after, before.Settings) {
				t.Errorf("it left the settings %v", after)
			}
			b.wait("the form has the settings of before", `document.querySelector($[0]).value === "3600000"`, field("interval_ms"))
			t.Log(text)
		})
	}
}
