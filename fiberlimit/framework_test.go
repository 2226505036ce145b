package fiberlimit_test

import (
	"bufio"
	"net"

	"github.com/gofiber/fiber/v2"
)

// listen, add and stream differ between the versions of fiber.
func listen(app *fiber.App, l net.Listener) error { return app.Listener(l) }

func add(app *fiber.App, method, pattern string, chain []fiber.Handler) {
	app.Add(method, pattern, chain...)
}

func stream(c *fiber.Ctx, status int, body func(*bufio.Writer)) error {
	c.Status(status).Context().SetBodyStreamWriter(body)
	return nil
}
