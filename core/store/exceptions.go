package store

import "time"

// ExceptionNote is what is known of an exception beside what it does.
type ExceptionNote struct {
	By     string    // who has set it; "": not known
	Reason string    // and why
	Until  time.Time // when it ends; zero: when it is removed
}
