package redisstore

import (
	"errors"
	"maps"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// without returns e without the overrides in which err reports mistakes, such as the name of a limit that this version of the policy
// does not have: blocks and all other overrides hold nevertheless.
func without(e core.Exceptions, err error) core.Exceptions {
	rest := e
	rest.Overrides = maps.Clone(e.Overrides)
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return rest
	}
	for _, err := range joined.Unwrap() {
		if mistake := (*core.ConfigError)(nil); errors.As(err, &mistake) {
			maps.DeleteFunc(rest.Overrides, func(key string, _ []core.Limit) bool {
				return strings.HasPrefix(mistake.Field, "Exceptions.Overrides."+key+"[")
			})
		}
	}
	return rest
}
