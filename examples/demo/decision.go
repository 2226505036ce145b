package main

import (
	"context"
	"net/http"
	"sync"

	"github.com/tokenbucket-go/ratelimit/core"
)

// decision is what the limiter's observer leaves with a request: the body tells who decided only when it passed.
type decision struct {
	source string
}

type decisionKey struct{}

// note is the observer.
func note(ctx context.Context, o core.Observation) {
	if d, ok := ctx.Value(decisionKey{}).(*decision); ok {
		d.source = o.Source.String()
	}
}

// contexts carry the contexts of requests past an adaptor that copies nothing of a request but its text.
type contexts struct{ byID sync.Map }

const contextHeader = "X-Demo-Context"

// through serves r by next, where of finds r's context again.
func (c *contexts) through(w http.ResponseWriter, r *http.Request, next http.Handler) {
	id := random()
	c.byID.Store(id, r.Context())
	defer c.byID.Delete(id)
	r.Header.Set(contextHeader, id)
	next.ServeHTTP(w, r)
}

func (c *contexts) of(id string) context.Context {
	kept, _ := c.byID.Load(id)
	if ctx, ok := kept.(context.Context); ok {
		return ctx
	}
	return context.Background()
}
