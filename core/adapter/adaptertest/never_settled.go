package adaptertest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

// neverSettled checks what happens to estimates that nothing settles.
func (s *suite[K, O]) neverSettled() {
	k, both := s.kit, counting("test", 9, 50)
	held := both
	held.Limits = []core.Limit{both.Limits[0], both.Limits[1].WithMaxHold(time.Minute)}
	heldOverride, shadow := both, held
	heldOverride.Overrides, shadow.Shadow = map[string][]core.Limit{"ann": held.Limits}, true
	for where, policy := range map[string]core.Policy{"a limit": held, "an override": heldOverride} {
		s.rule("New and NewTogether panic if "+where+" gives estimates back and the middleware never settles them", func(c *trial[K, O]) {
			const mistake = `"test" has a limit of words with a MaxHold, and this middleware settles nothing`
			l := c.limiter(policy)
			c.wantPanic(middleware[K, O]{Limiter: l, Key: k.Global("all"), Options: []O{k.WithUnits(words)}}, "New limiter: "+mistake)
			c.wantPanic(middleware[K, O]{Together: []rule[K]{{c.named("one", 1), k.Global("all")}, {l, k.Global("all")}}, Options: []O{k.WithUnits(words)}},
				"NewTogether rules[1].Limiter: "+mistake)
		})
	}
	s.rule("an estimate that WithSettle leaves as it is stays charged after MaxHold", func(c *trial[K, O]) {
		for _, together := range []bool{false, true} {
			policy := held
			policy.Name = fmt.Sprint("together-", together)
			l := c.limiter(policy)
			settle, units := k.WithSettle(new(settlements).settle), k.WithUnits(words)
			app := c.use(l, k.Global("all"), units, settle)
			if together {
				app = c.useTogether([]rule[K]{{l, k.Global("all")}}, units, settle)
			}
			c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "the request")
			c.wantLeft(l, "afterwards", "calls", 8, "words", 45)
			c.clock.advance(2 * time.Minute)
			c.wantLeft(l, "after MaxHold", "calls", 8, "words", 45)
		}
	})
	s.rule("estimates that come back are no mistake with WithSettle, nor in shadow mode", func(c *trial[K, O]) {
		l := c.limiter(held)
		app := c.use(l, k.Global("all"), k.WithUnits(words), k.WithSettle(giving(20).settle))
		c.wantStatus(app.send(request{header: header("Words", "5")}), http.StatusOK, "the request")
		c.wantLeft(l, "afterwards", "calls", 8, "words", 30)
		c.wantStatus(c.use(c.limiter(shadow), k.Global("all"), k.WithUnits(words)).send(request{}), http.StatusOK, "the request in shadow mode")
	})
}
