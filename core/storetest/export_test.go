package storetest

import "time"

// SetLongest makes checks of stores that hang fail sooner.
func SetLongest(d time.Duration) { longest = d }
