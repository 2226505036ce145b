package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/echolimit"
)

// echo's Timeout answers past echo's response. A limiter in front of it must
// see its 503, and a slot ends with that response, while the handler's work may
// go on.
func TestALimiterSeesTheAnswerOfATimeout(t *testing.T) {
	for name, over := range map[string]echolimit.Option{
		"WithRefund": nil,
		"WithSettle": echolimit.WithSettle(func(echo.Context, int) core.Units { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.InFlight(1)}}))
			calls := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerDay(5)}}))
			seen := 0
			see := echolimit.WithRefund(func(_ echo.Context, status int) bool { seen = status; return true })
			if over != nil {
				see = echolimit.WithSettle(func(_ echo.Context, status int) core.Units { seen = status; return core.Units{core.Requests: 0} })
			}
			goOn, worked := make(chan struct{}), make(chan struct{})
			e := echo.New()
			var slotsInUse int64
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // echo reuses the context, though the handler may still have it
				return func(c echo.Context) error {
					err := next(c)
					res, _ := limiter.Peek(t.Context(), "all")
					slotsInUse = 1 - res.Remaining
					close(goOn)
					<-worked
					return err
				}
			})
			e.Use(echolimit.New(limiter, echolimit.Global("all")), echolimit.New(calls, echolimit.Global("all"), see))
			//lint:ignore SA1019 apps use it
			e.Use(middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: time.Millisecond}))
			e.GET("/", func(echo.Context) error {
				defer close(worked)
				<-goOn // after the response
				return nil
			})
			rec := httptest.NewRecorder()
			e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
			if rec.Code != http.StatusServiceUnavailable || seen != rec.Code {
				t.Errorf("the client got %d, and the limiter saw %d, want 503", rec.Code, seen)
			}
			if slotsInUse != 0 {
				t.Errorf("%d slots are in use after the response, while the handler works", slotsInUse)
			}
			res, err := calls.Peek(t.Context(), "all")
			if err != nil || res.Remaining != 5 {
				t.Errorf("%d of 5 are left, want what the 503 gave back: %v", res.Remaining, err)
			}
		})
	}
}
