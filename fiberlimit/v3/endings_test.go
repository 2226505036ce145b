package fiberlimit_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/compress"
	recovery "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"
	"github.com/valyala/fasthttp/fasthttputil"

	"github.com/tokenbucket-go/ratelimit/fiberlimit/v3"
	"github.com/tokenbucket-go/ratelimit/internal/endings"
)

func TestMiddlewareThatAnswers(t *testing.T) {
	endings.Run(t, "fiber v3", endings.InRealTime, func(t *testing.T, c endings.Case) int {
		slots := fiberlimit.New(c.Slots, fiberlimit.Global(endings.Key))
		calls := fiberlimit.New(c.Calls, fiberlimit.Global(endings.Key), fiberlimit.WithRefund(func(_ fiber.Ctx, status int) bool { return c.See(status) }))
		config := fiber.Config{}
		use := func(c fiber.Ctx) error { return c.Next() }
		handler := func(c fiber.Ctx) error { return c.SendStatus(http.StatusOK) }
		switch c.Middleware {
		case "timeout.New":
			use = timeout.New(use, timeout.Config{Timeout: time.Millisecond})
			handler = func(c fiber.Ctx) error {
				<-c.Context().Done()
				return c.Context().Err()
			}
		case "compress.New":
			use = compress.New()
			handler = func(c fiber.Ctx) error { return c.Status(http.StatusCreated).SendString(strings.Repeat("x", 4096)) }
		case "recover.New":
			use = recovery.New()
			handler = func(fiber.Ctx) error { panic("a handler's mistake") }
		case "Config.BodyLimit":
			config.BodyLimit = 8
		default:
			t.Fatalf("the test does not know %q", c.Middleware)
		}
		app := fiber.New(config)
		if c.InFront {
			app.Use(slots, calls, use)
		} else {
			app.Use(use, slots, calls)
		}
		app.Post("/", handler)
		request, err := http.NewRequest(http.MethodPost, "http://example.com/", strings.NewReader(strings.Repeat("x", 64)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "gzip")
		l := fasthttputil.NewInmemoryListener()
		go func() { _ = app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }()
		defer func() { _ = app.Shutdown() }()
		client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial() }}, Timeout: endings.Patience}
		res, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	})
}
