package bucket

import "time"

// Instant returns t in µs since 1970. ok is false if t is not between 1970 and [Latest]: stored state can't hold it.
func Instant(t time.Time) (at int64, ok bool) {
	if seconds := t.Unix(); seconds < 0 || seconds > Latest/1_000_000 { // UnixMicro overflows far away from 1970
		return 0, false
	}
	at = t.UnixMicro()
	return at, at <= Latest
}
