package fiberlimit_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
)

// Fiber's timeout middleware restores the request's context in a goroutine
// while the limiter returns tokens. If the refund read the context from fiber
// again, -race would report it.
func TestRefundAfterATimeoutHasNoRace(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
	app := fiber.New()
	app.Use(fiberlimit.New(limiter, fiberlimit.Global("all"), fiberlimit.WithRefund(func(_ fiber.Ctx, status int) bool { return status >= 400 })))
	app.Get("/", timeout.New(func(c fiber.Ctx) error { <-c.Context().Done(); return c.Context().Err() }, timeout.Config{Timeout: time.Millisecond}))
	for range 50 {
		res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), fiber.TestConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusRequestTimeout {
			t.Fatalf("answered %d, want 408: every request is refunded, so none is denied", res.StatusCode)
		}
	}
}

// If a handler is too late, fiber's timeout middleware has answered, and never
// sends the stream that the handler returns. The request is settled when the
// handler has returned: nothing else will end.
func TestSettleOfAStreamAfterATimeout(t *testing.T) {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "test", Limits: []core.Limit{core.PerDay(5)}}))
	settled, began, late := make(chan bool, 10), make(chan bool), make(chan bool)
	limit := fiberlimit.New(limiter, fiberlimit.Global("all"), fiberlimit.WithSettle(func(fiber.Ctx, int) core.Units {
		settled <- true
		return core.Units{core.Requests: 0}
	}))
	app := fiber.New()
	tooLate := func(fiber.Ctx) error {
		<-began // or fiber would read the response's header while the limiter writes it
		return fiber.ErrRequestTimeout
	}
	inTime := func(c fiber.Ctx) error { // the limiter decides, however late it gets a turn
		c.SetContext(context.WithoutCancel(c.Context()))
		return limit(c)
	}
	app.Get("/", timeout.New(inTime, timeout.Config{Timeout: time.Millisecond, OnTimeout: tooLate}), func(c fiber.Ctx) error {
		close(began)
		<-late
		return c.SendStreamWriter(func(*bufio.Writer) {})
	})
	res, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil), fiber.TestConfig{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("answered %d, want 408", res.StatusCode)
	}
	close(late)
	select {
	case <-settled:
	case <-time.After(time.Minute):
		t.Fatal("the handler has returned, but the request is not settled")
	}
	if res, err := limiter.Peek(t.Context(), "global:all"); err != nil || len(settled) > 0 {
		t.Errorf("Remaining is %d (%v), settled %d times more, want one settlement", res.Remaining, err, len(settled))
	}
}
