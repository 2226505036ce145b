package fiberlimit_test

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v3"
)

// test, listen, add and stream differ between the versions of fiber.
func listen(app *fiber.App, l net.Listener) error {
	return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
}

func test(app *fiber.App, r *http.Request) (*http.Response, error) {
	return app.Test(r, fiber.TestConfig{})
}

func add(app *fiber.App, method, pattern string, chain []fiber.Handler) {
	var handlers []any
	for _, h := range chain {
		handlers = append(handlers, h)
	}
	app.Add([]string{method}, pattern, handlers[0], handlers[1:]...)
}

func stream(c fiber.Ctx, status int, body func(*bufio.Writer)) error {
	return c.Status(status).SendStreamWriter(body)
}
