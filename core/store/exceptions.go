package store

import "time"

// ExceptionNote is what is known of an exception beside what it does.
type ExceptionNote struct {
	By     string    // who has set it; "": not known
	Reason string    // and why
	Until  time.Time // when it ends; zero: when it is removed
}

// Following is how a limiter learns of exceptions that are kept elsewhere, such
// as in Redis: see FollowExceptions of redisstore. Those in force are of
// Version. The zero Following is that of a limiter whose exceptions nobody has
// read.
type Following struct {
	Since   time.Time // when somebody began to read them again and again; zero: nobody does
	Read    time.Time // when somebody last read them, or learnt that they have not changed; zero: never
	Version int64     // grows with each change: about when it was made, in microseconds since 1970 by the clock of Redis; 0: there was none
}

// Age is how long ago exceptions were read at an instant, or, if they were not,
// since when somebody follows them. It reports whether anybody does.
func (f Following) Age(now time.Time) (age time.Duration, follows bool) {
	last := f.Since
	if f.Read.After(last) {
		last = f.Read
	}
	return max(0, now.Sub(last)), !f.Since.IsZero()
}
