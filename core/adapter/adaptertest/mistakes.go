package adaptertest

import "net/http"

// mistakes: those in the program itself.
func (s *suite[K, O]) mistakes() {
	var none K
	for _, mistake := range []struct {
		rule string
		make func(c *trial[K, O]) Limiter[K, O]
	}{
		{"New panics when the limiter is nil", func(c *trial[K, O]) Limiter[K, O] { return Limiter[K, O]{nil, c.kit.Global("all"), nil} }},
		{"New panics when the key is nil", func(c *trial[K, O]) Limiter[K, O] { return Limiter[K, O]{c.holding(1), none, nil} }},
	} {
		s.rule(mistake.rule, func(c *trial[K, O]) {
			l := newListener()
			_ = l.Close()
			defer func() {
				if recover() == nil {
					c.errorf("it did not, so every request would fail")
				}
			}()
			_ = c.kit.Serve(l, c.app(answer(http.StatusOK), mistake.make(c)))
		})
	}
}
