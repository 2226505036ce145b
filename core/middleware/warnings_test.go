package middleware_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/logtest"
)

// Whoever reads the log at night must learn which policy and path a line is
// about, and how often it happens, and no client may fill the disk.
func TestEachWarningIsLoggedOnceAMinute(t *testing.T) {
	keyed := func(key string, err error) func(*call) (string, error) {
		return func(*call) (string, error) { return key, err }
	}
	for name, test := range map[string]struct {
		key     func(*call) (string, error)
		options middleware.Options[*call]
		shadow  bool
		want    string
	}{
		"a request without a key":  {key: keyed("", core.ErrNoKey), want: `level=WARN msg="ratelimit: a request was refused because it has no usable key" code=RL707 policy=api requests=`},
		"an error of the app":      {key: keyed("", errors.New("no database")), want: `level=ERROR msg="ratelimit: a request was refused because there is no decision about it" code=RL709 policy=api requests=`},
		"an error in shadow mode":  {key: keyed("", errors.New("no database")), shadow: true, want: "code=RL708 policy=api requests="},
		"a plan that is not there": {key: keyed("k", nil), options: middleware.Options[*call]{Plan: func(*call) (string, error) { return "gold", nil }}, want: "code=RL720 policy=api requests="},
		"a cost that never passes": {key: keyed("k", nil), options: middleware.Options[*call]{Cost: func(*call) (int64, error) { return 1_001, nil }}, want: "code=RL721 policy=api requests="},
		"a settlement that failed": {key: keyed("k", nil), options: middleware.Options[*call]{Settle: func(*call, int) core.Units { return core.Units{"words": 1} }}, want: "code=RL710 policy=api requests="},
		"a settlement that panics": {key: keyed("k", nil), options: middleware.Options[*call]{Settle: func(*call, int) core.Units { panic("nil map") }}, want: "code=RL710 policy=api requests="},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines logtest.Buffer
				limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1_000)}, Shadow: test.shadow},
					core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))))
				engine := middleware.New(limiter, test.key, test.options, middleware.Protocol[*call]{})
				ask := func() {
					c := &call{ctx: t.Context(), method: "/files"}
					if a := engine.Begin(c, c); engine.WantsEnd(&a) {
						engine.End(c, &a, ok)
					}
				}
				for range 5 {
					ask()
				}
				assert.Equal(t, 1, lines.Count(test.want+"1 "), "the first: %s", lines.String())
				assert.Equal(t, 1, lines.Count("code="), lines.String())
				time.Sleep(time.Minute)
				ask()
				ask()
				assert.Equal(t, 1, lines.Count(test.want+"5 "), "a minute later, for all since: %s", lines.String())
				assert.Equal(t, 2, lines.Count("code="), lines.String())
			})
		})
	}
}
