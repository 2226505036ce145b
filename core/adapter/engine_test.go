package adapter_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// Whoever rehearses a limit wants to know what it will refuse besides what exceeds it.
func TestShadowModeForetellsRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		lines string
	}{
		"no key":                    {fmt.Errorf("%w: no user", core.ErrNoKey), "status=400"},
		"a key function that fails": {errors.New("no database"), "status=500"},
		"a store that is away":      {core.ErrUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
				Name: "api", Limits: []core.Limit{core.PerHour(1)}, Shadow: true}))
			engine := adapter.New(limiter, func(*exchange) (string, error) { return "", c.err }, adapter.Options[*exchange]{})
			for range 3 {
				x := &exchange{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
				require.Equal(t, adapter.Skipped, engine.Begin(x, x).Outcome)
			}
			lines := strings.Count(log.String(), "\n")
			if c.lines == "" {
				assert.Zero(t, lines, log.String())
				return
			}
			assert.Equal(t, 1, lines, "once: %s", log.String())
			assert.Contains(t, log.String(), c.lines)
			assert.Contains(t, log.String(), "policy=api")
		})
	}
}

func TestAFailedVerdictHasNoResult(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerHour(1)}}))
	engine := adapter.New(limiter, func(*exchange) (string, error) { return "k", nil }, adapter.Options[*exchange]{
		Cost: func(*exchange) (int64, error) { return -5, nil },
	})
	x := &exchange{r: httptest.NewRequest(http.MethodGet, "/", nil), w: httptest.NewRecorder()}
	v := engine.Begin(x, x)
	assert.Equal(t, adapter.Failed, v.Outcome)
	assert.ErrorIs(t, v.Err, core.ErrCost)
	assert.Equal(t, core.Result{}, v.Result)
}
