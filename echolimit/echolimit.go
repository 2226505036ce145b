package echolimit

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// middleware takes o as a pointer, because echo makes the inner closure for
// each request.
func install(engine *adapter.Engine[echo.Context], o *config) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			a := begin(engine, c)
			switch a.Verdict {
			case middleware.Denied, middleware.Failed:
				return refuse(c, a, o)
			case middleware.Allowed:
				switch {
				case !engine.WantsDone(a):
					return next(c)
				case engine.WantsOver(a):
					return settled(engine, a, next, c)
				}
				ended := engine.StatusHook(c, a)
				// The status is known when the response is written, for example
				// by the app's error handler.
				res := c.Response()
				res.Before(func() { ended(res.Status, true) })
				sent := false
				res.Writer = nethttp.OnSent(res.Writer, func() bool { return res.Committed }, func(status int) {
					sent = true
					ended(status, true)
				})
				err := next(c)
				if err == nil && !sent && !res.Committed {
					ended(http.StatusOK, false) // net/http sends 200, unless middleware in front answers
				}
				return err
			}
			return next(c)
		}
	}
}

// answer calls custom, and reports whether it did nothing: it returned no error
// and wrote nothing.
func answer(c echo.Context, custom func() error) (silent bool, err error) {
	var written nethttp.Status
	res := c.Response()
	below := res.Writer
	res.Writer = written.Watch(below)
	err = custom()
	res.Writer = below
	return err == nil && !res.Committed && written.Written() == 0, err
}

// settled calls next, and has the engine settle the request when the response
// is over.
func settled(engine *adapter.Engine[echo.Context], a adapter.Admission, next echo.HandlerFunc, c echo.Context) (err error) {
	returned, status := false, 0 // what was sent, also if echo does not know of it: by a flush, or past its response
	res := c.Response()
	res.Writer = nethttp.OnSent(res.Writer, func() bool { return res.Committed }, func(sent int) { status = cmp.Or(status, sent) })
	defer func() {
		if status == 0 {
			status = final(c, returned, err)
		}
		engine.Done(c, a, status)
	}()
	err = next(c)
	returned = true
	return err
}

// final is the status of a response that is over.
func final(c echo.Context, returned bool, err error) int {
	status := http.StatusInternalServerError
	if returned && err == nil {
		status = http.StatusOK
	} else if code := errorStatus(c, err); code != 0 {
		status = code
	}
	if c.Response().Committed {
		status = c.Response().Status
	}
	return status
}

// errorStatus returns the status of echo's own errors.
func errorStatus(_ echo.Context, err error) int {
	if he := own(err); he != nil {
		return he.Code
	}
	return 0
}

// own returns echo's error in err, or nil.
func own(err error) *echo.HTTPError {
	var he *echo.HTTPError
	_ = errors.As(err, &he)
	return he
}

// asIs returns echo's error in err, because echo's error handler does not
// unwrap errors.
func asIs(err error) error { return own(err) }
