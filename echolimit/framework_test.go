package echolimit_test

import "github.com/labstack/echo/v4"

// committed differs between the versions of echo.
func committed(c echo.Context) bool { return c.Response().Committed }
