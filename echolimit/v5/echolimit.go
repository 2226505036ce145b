package echolimit

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/internal/nethttp"
)

// middleware takes o as a pointer, because echo makes the inner closure for
// each request.
func install(engine *adapter.Engine[*echo.Context], o *config) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
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
				nearest, plain := c.Response().(*echo.Response)
				res := innermost(c.Response())
				if res == nil {
					break // the status can't be known: a writer hides echo's
				}
				ended := engine.StatusHook(c, a)
				// The status is known when the response is written, for example
				// by the app's error handler.
				res.Before(func() { ended(res.Status, true) })
				sent := false
				res.ResponseWriter = nethttp.OnSent(res.ResponseWriter, func() bool { return res.Committed }, func(status int) {
					sent = true
					ended(status, true)
				})
				err := next(c)
				// A writer around echo's, such as that of gzip, may hold the
				// answer back until its middleware returns. Then the Before
				// hook reports the status.
				if err == nil && !sent && plain && !nearest.Committed && !res.Committed {
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
func answer(c *echo.Context, custom func() error) (silent bool, err error) {
	var written nethttp.Status
	if res, plain := c.Response().(*echo.Response); plain {
		below := res.ResponseWriter
		res.ResponseWriter = written.Watch(below)
		err = custom()
		res.ResponseWriter = below
		return err == nil && !res.Committed && written.Written() == 0, err
	}
	w := c.Response() // a writer around echo's, such as that of gzip, may hold the answer back
	c.SetResponse(written.Watch(w))
	err = custom()
	c.SetResponse(w)
	return err == nil && written.Written() == 0, err
}

// innermost returns echo's own response below w, or nil if w hides it.
// Middleware may have wrapped it in responses of the same type, and an error
// handler writes past these.
func innermost(w http.ResponseWriter) (res *echo.Response) {
	for {
		next, err := echo.UnwrapResponse(w)
		if err != nil {
			return res
		}
		res, w = next, next.Unwrap()
	}
}

// settled calls next, and has the engine settle the request when the response
// is over.
func settled(engine *adapter.Engine[*echo.Context], a adapter.Admission, next echo.HandlerFunc, c *echo.Context) (err error) {
	returned, status := false, 0 // what was sent, also if echo does not know of it: by a flush, or past its response
	if res := innermost(c.Response()); res != nil {
		res.ResponseWriter = nethttp.OnSent(res.ResponseWriter, func() bool { return res.Committed }, func(sent int) { status = cmp.Or(status, sent) })
	}
	// A writer around echo's, such as that of gzip, may hold the answer back
	// until its middleware returns.
	var held nethttp.Status
	if w := c.Response(); !isPlain(w) {
		c.SetResponse(held.Watch(w))
		defer c.SetResponse(w) // after Done: deferred calls run in reverse order
	}
	defer func() {
		if status == 0 {
			status = final(c, returned, err, held.Written())
		}
		engine.Done(c, a, status)
	}()
	err = next(c)
	returned = true
	return err
}

func isPlain(w http.ResponseWriter) bool {
	_, plain := w.(*echo.Response)
	return plain
}

// final is the status of a response that is over. held is that of one that a
// writer around echo's holds back, or 0.
func final(c *echo.Context, returned bool, err error, held int) int {
	status := http.StatusInternalServerError
	if returned && err == nil && held != 0 {
		status = held
	} else if returned && err == nil {
		status = http.StatusOK
	} else if code := errorStatus(c, err); code != 0 {
		status = code
	}
	if res := innermost(c.Response()); res != nil && res.Committed {
		status = res.Status
	}
	return status
}

// errorStatus returns the status of echo's own errors, and of errors with a
// status that echo understands.
func errorStatus(_ *echo.Context, err error) int { return echo.StatusCode(err) }

// asIs returns err, which echo's error handler unwraps.
func asIs(err error) error { return err }
