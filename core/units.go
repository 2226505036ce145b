package core

// Requests is the unit of limits that name none.
const Requests = "requests"

// Units is what a request takes, by the unit: {"tokens": 1200} is 1 request and 1,200 tokens. A request counts as one unless
// Units says otherwise: {Requests: 0, "tokens": 1200} takes tokens alone. A unit takes its number from every limit that
// counts it.
type Units map[string]int64

// requests is how many requests u counts as.
func (u Units) requests() int64 {
	if n, given := u[Requests]; given {
		return n
	}
	return 1
}
