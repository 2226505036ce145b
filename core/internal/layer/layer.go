// Package layer has what stores around another one share. It is a package
// because leases, the deny cache, the breaker and the store on Redis each embed
// it.
package layer

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Layer is the part that stores around another one have in common. Such a store
// embeds it.
type Layer struct {
	Next store.Store

	joint  store.JointStore // Next; nil if it can't decide requests together
	config *store.Config
}

// On returns the Layer of a store around next.
func On(next store.Store) Layer {
	l := Layer{Next: next, config: &store.Config{}}
	l.joint, _ = next.(store.JointStore)
	if c, ok := next.(store.Configured); ok {
		l.config = c.Config()
	}
	return l
}

// Config returns the configuration of the store around which the layers are.
func (l *Layer) Config() *store.Config { return l.config }

// DoTogether has the next store decide requests in one step. It returns
// [store.ErrApart] if that can't.
func (l *Layer) DoTogether(ctx context.Context, requests []store.Request) ([]store.Answer, error) {
	if l.joint == nil {
		return nil, store.ErrApart
	}
	return l.joint.DoTogether(ctx, requests)
}

// OneBucket reports whether requests are all on one bucket, so that no two
// servers have to decide them.
func OneBucket(requests []store.Request) bool {
	for i := range requests {
		if !requests[i].SameBucket(&requests[0]) {
			return false
		}
	}
	return true
}
