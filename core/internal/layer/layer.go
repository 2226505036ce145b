// Package layer has what stores around another one share.
package layer

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core/store"
)

// Layer is the part of a store around another one that passes everything on. Such a store embeds it, and has methods of its
// own for what it changes.
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

// Do has the next store decide r.
func (l *Layer) Do(ctx context.Context, r store.Request) (store.Answer, error) {
	return l.Next.Do(ctx, r)
}

// DoTogether has the next store decide requests in one step. It returns [ErrApart] if that can't.
func (l *Layer) DoTogether(ctx context.Context, requests []store.Request) ([]store.JointAnswer, error) {
	if l.joint == nil {
		return nil, store.ErrApart
	}
	return l.joint.DoTogether(ctx, requests)
}

// Reset has the next store forget a bucket.
func (l *Layer) Reset(ctx context.Context, policy, key string) error {
	return l.Next.Reset(ctx, policy, key)
}
