package echolimit_test

import (
	"log/slog"

	"github.com/labstack/echo/v5"
)

// silence and committed differ between the versions of echo.
func silence(e *echo.Echo) { e.Logger = slog.New(slog.DiscardHandler) }

func committed(c *echo.Context) bool {
	res, err := echo.UnwrapResponse(c.Response())
	return err == nil && res.Committed
}
