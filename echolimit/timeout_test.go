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
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// echo's Timeout answers past echo's response. A slot in front of it ends with
// that response, while the handler's work may go on. TestMiddlewareThatAnswers
// shows that a refund gets its 503.
func TestASlotEndsWithTheAnswerOfATimeout(t *testing.T) {
	slots := limittest.Limiter(t, core.NewMemoryStore(), "slots", core.InFlight(1))
	calls := limittest.Limiter(t, core.NewMemoryStore(), "calls", core.PerDay(5))
	settled := 0
	settle := echolimit.WithSettle(func(_ echo.Context, status int) core.Units { settled = status; return core.Units{core.Requests: 0} })
	goOn, worked := make(chan struct{}), make(chan struct{})
	e := echo.New()
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc { // echo reuses the context, though the handler may still have it
		return func(c echo.Context) error {
			err := next(c)
			if limittest.Left(t, slots, "all") != 1 {
				t.Error("the slot is in use after the response, while the handler works")
			}
			close(goOn)
			<-worked
			return err
		}
	})
	all := func(echo.Context) (string, error) { return "all", nil }
	e.Use(echolimit.New(slots, all), echolimit.New(calls, all, settle))
	//lint:ignore SA1019 apps use it
	e.Use(middleware.TimeoutWithConfig(middleware.TimeoutConfig{Timeout: time.Millisecond}))
	e.GET("/", func(echo.Context) error {
		defer close(worked)
		<-goOn // after the response
		return nil
	})
	rec := httptest.NewRecorder()
	e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	if rec.Code != http.StatusServiceUnavailable || settled != rec.Code {
		t.Errorf("the client got %d, and the settle function %d, want 503", rec.Code, settled)
	}
	if left := limittest.Left(t, calls, "all"); left != 5 {
		t.Errorf("%d of 5 are left, want what the settlement gave back", left)
	}
}
