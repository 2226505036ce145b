package fiberlimit_test

import (
	"bufio"
	"net"

	"github.com/gofiber/fiber/v3"
)

// listen, add and stream differ between the versions of fiber.
func listen(app *fiber.App, l net.Listener) error {
	return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true})
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
