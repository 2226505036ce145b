// Package rpctest has what interceptors of RPC frameworks share when they
// describe themselves to package adaptertest.
package rpctest

import (
	"context"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter/adaptertest"
)

// OfApp begins the messages of answers that OnDenied and OnError write.
const OfApp = "app: "

// Call makes a call of app, whose context has what app's middleware leaves in
// it. If it panics, Call returns panicked.
func Call[M any](ctx context.Context, app adaptertest.App[M], panicked error, call func(context.Context) error) (err error) {
	defer func() {
		if recover() != nil {
			err = panicked
		}
	}()
	for key, value := range app.Values {
		//lint:ignore SA1029 the keys of the suite are strings
		ctx = context.WithValue(ctx, key, value)
	}
	return call(app.Context(ctx))
}

// Reply has the handler of a route answer. send sends a message. failed is the
// status of the error to answer with, or 0.
func Reply[M any](
	ctx context.Context, route adaptertest.Route[M], res core.Result, ok bool, all []core.Result, send func(string) error,
) (failed int) {
	r := route.Handle(ctx, res, ok, all)
	switch {
	case r.Stream != nil:
		var written strings.Builder
		flush := func() error {
			defer written.Reset()
			if err := ctx.Err(); err != nil {
				return err
			}
			return send(written.String())
		}
		r.Stream(&written, flush)
		_ = flush()
	case r.Status >= http.StatusBadRequest:
		return r.Status
	default:
		_ = send(r.Body) // a client that has gone gets nothing
	}
	return 0
}
