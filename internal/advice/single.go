package advice

import "strings"

// single reads fields with one number each: RateLimit-* of drafts 0 to 6, which
// GitLab sends too, and X-RateLimit-*, which came before them. Their resets are
// in seconds from now, Unix seconds or dates, depending on who sends them.
func single(fields Fields, c clock) []Quota {
	for _, prefix := range []string{"Ratelimit", "X-Ratelimit", "X-Rate-Limit"} {
		left, ok := count(leading(fields(prefix + "-Remaining")))
		if !ok {
			continue
		}
		q := Quota{Unit: Requests, Left: left}
		q.Limit, _ = count(leading(fields(prefix + "-Limit"))) // which may have a policy behind it: 100, 100;w=60
		reset, said := c.until(first(fields(prefix + "-Reset")))
		if !said {
			reset, _ = c.until(first(fields(prefix + "-Resettime")))
		}
		q.Reset, q.Whole = reset.left, reset.whole
		return []Quota{q}
	}
	return nil
}

// leading returns what stands before the first comma of a field.
func leading(values []string) string {
	value, _, _ := strings.Cut(first(values), ",")
	return strings.TrimSpace(value)
}
