package core

// Must returns v, or panics with err if that is not nil. Use it for limiters made from constants at start-up.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(withPage(err))
	}
	return v
}
