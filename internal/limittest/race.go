//go:build race

package limittest

// Race says that the race detector is on. It makes pools drop what they hold,
// and so programs allocate more.
const Race = true
