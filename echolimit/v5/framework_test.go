package echolimit_test

import "github.com/labstack/echo/v5"

// committed differs between the versions of echo.
func committed(c *echo.Context) bool {
	res, err := echo.UnwrapResponse(c.Response())
	return err == nil && res.Committed
}
