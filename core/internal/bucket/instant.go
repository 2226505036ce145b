package bucket

import "time"

// Instant returns t in µs since 1970. ok is false if stored state can't hold t:
// it is before 1970 or after [Latest].
func Instant(t time.Time) (at int64, ok bool) {
	if seconds := t.Unix(); seconds < 0 || seconds > Latest/1_000_000 { // UnixMicro overflows far away from 1970
		return 0, false
	}
	at = t.UnixMicro()
	return at, at <= Latest
}
