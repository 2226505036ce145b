package main

import (
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// givenKey returns the key that an argument is, as stores have it.
func givenKey(arg string) (string, error) {
	key, err := show.GivenKey(arg)
	switch {
	case err != nil:
		return "", misuse("%s: %w", arg, err)
	case key == "":
		return "", misuse("a key has at least one byte")
	}
	return store.Key(key), nil
}
