// Package layer has what stores around another one share.
package layer

import (
	"context"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Layer is the part of a store around another one that passes everything on. Such a store embeds it, and has methods of its
// own for what it changes.
type Layer struct {
	Next core.Store

	joint  core.JointStore // Next; nil if it can't decide requests together
	config *core.StoreConfig
}

// On returns the Layer of a store around next.
func On(next core.Store) Layer {
	l := Layer{Next: next, config: &core.StoreConfig{}}
	l.joint, _ = next.(core.JointStore)
	if c, ok := next.(core.ConfiguredStore); ok {
		l.config = c.Config()
	}
	return l
}

// Config returns the configuration of the store around which the layers are.
func (l *Layer) Config() *core.StoreConfig { return l.config }

// Do has the next store decide r.
func (l *Layer) Do(ctx context.Context, r core.Request) (core.Answer, error) {
	return l.Next.Do(ctx, r)
}

// DoTogether has the next store decide requests in one step. It returns [ErrApart] if that can't.
func (l *Layer) DoTogether(ctx context.Context, requests []core.Request) ([]core.JointAnswer, error) {
	if l.joint == nil {
		return nil, core.ErrApart
	}
	return l.joint.DoTogether(ctx, requests)
}

// Reset has the next store forget a bucket.
func (l *Layer) Reset(ctx context.Context, policy, key string) error {
	return l.Next.Reset(ctx, policy, key)
}
