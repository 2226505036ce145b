package adapter

import (
	"errors"
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Options are what a user sets for one middleware, in the framework's own terms: C is what its
// handlers receive. The zero value of each means its default.
type Options[C any] struct {
	Cost   func(C) (int64, error)        // tokens a request takes; 1
	Limits func(C) ([]core.Limit, error) // in place of the policy's own; nil keeps those
	Skip   func(C) bool                  // whether to let a request through unlimited
	Refund func(C, int) bool             // whether to give a request's tokens back, by its status
}

// call asks a key function. An empty key is a missing one: it would silently make strangers share a
// bucket.
func call[C any, K ~func(C) (string, error)](key K, c C) (string, error) {
	if key == nil {
		return "", errors.New("ratelimit: the key function is nil")
	}
	k, err := key(c)
	if err == nil && k == "" {
		err = fmt.Errorf("%w: the key function returned an empty key", core.ErrNoKey)
	}
	return k, err
}

func isNoKey(err error) bool { return errors.Is(err, core.ErrNoKey) }
