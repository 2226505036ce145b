package adaptertest

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// log checks where the middleware logs.
func (s *suite[K, O]) log() {
	s.rule("what the middleware logs goes to its limiter's logger, and nothing to the default one", func(c *trial[K, O]) {
		k := s.kit
		var lines logtest.Buffer
		logger := core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))
		limiter := func(name string) *core.Limiter {
			l, err := core.NewLimiter(c.store, core.Policy{Name: name, Limits: []core.Limit{slow(9)}}, logger)
			if err != nil {
				c.errorf("NewLimiter: %v", err)
			}
			return l
		}
		failing := k.WithCost(func(Header) (int64, error) { return 0, errors.New("no database") })
		settling := k.WithSettle(func(Header, int) core.Units { panic("no usage") })
		addresses := !k.absent(k.ByIP())
		twice := middleware[K, O]{Limiter: limiter("twice"), Key: k.Global("all")}
		defaults := logtest.Capture(func() {
			c.wantStatus(c.use(limiter("key"), k.ByHeader("Missing")).send(request{}), http.StatusBadRequest, "without a key")
			c.wantStatus(c.use(limiter("cost"), k.Global("all"), failing).send(request{}), http.StatusInternalServerError, "a cost function that fails")
			c.wantStatus(c.use(limiter("settle"), k.Global("all"), settling).send(request{}), http.StatusOK, "a settle function that panics")
			if addresses {
				c.wantStatus(c.use(limiter("address"), k.Join(k.ByIP(), k.ByIP())).send(request{header: header("X-Forwarded-For", "192.0.2.1")}), http.StatusOK, "a proxy that is not trusted")
			}
			c.wantStatus(c.serve(c.app(answer(http.StatusOK), twice, twice)).send(request{}), http.StatusOK, "charged twice")
		})
		codes := map[string]string{"RL704": "a request charged twice", "RL707": "a missing key", "RL709": "an error of the user's", "RL710": "a failed settlement"}
		if addresses {
			codes["RL701"] = "a proxy that is not trusted"
		}
		for code, of := range codes {
			if !strings.Contains(lines.String(), "code="+code) {
				c.errorf("the limiter's logger got no line of %s (%s): %s", code, of, lines.String())
			}
			if strings.Contains(defaults, code) {
				c.errorf("the default logger got a line of %s (%s): %s", code, of, defaults)
			}
		}
	})
}
