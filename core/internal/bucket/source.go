package bucket

// Source is who made a decision: package core documents the values.
type Source uint8

// The sources, in the order of package core.
const (
	FromStore Source = iota
	FromDenyCache
	FromLease
	FromFallback
	FromFailOpen
)
