package echolimit_test

import (
	"io"

	"github.com/labstack/echo/v4"
)

// silence and committed differ between the versions of echo.
func silence(e *echo.Echo) { e.Logger.SetOutput(io.Discard) }

func committed(c echo.Context) bool { return c.Response().Committed }
