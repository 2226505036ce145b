package core

import "reflect"

// Must returns v, or panics with err if that is not nil. Use it for limiters made from constants at start-up.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(withPage(err))
	}
	return v
}

// isNil reports whether v is nil or holds a nil pointer.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
