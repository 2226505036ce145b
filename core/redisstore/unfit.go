package redisstore

import (
	"maps"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// without returns e without the overrides in which err reports mistakes, such as the name of a limit that this version of the policy
// does not have: blocks and all other overrides hold nevertheless.
func without(e core.Exceptions, err error) core.Exceptions {
	rest := core.Exceptions{Blocked: e.Blocked, Overrides: maps.Clone(e.Overrides)}
	for _, err := range mistakesIn(err) {
		maps.DeleteFunc(rest.Overrides, func(key string, _ []core.Limit) bool {
			return strings.HasPrefix(err.Field, "Exceptions.Overrides."+key+"[")
		})
	}
	return rest
}

// mistakesIn returns the mistakes that err joins.
func mistakesIn(err error) (mistakes []*core.ConfigError) {
	switch e := err.(type) {
	case *core.ConfigError:
		mistakes = append(mistakes, e)
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			mistakes = append(mistakes, mistakesIn(each)...)
		}
	case interface{ Unwrap() error }:
		mistakes = mistakesIn(e.Unwrap())
	}
	return mistakes
}
