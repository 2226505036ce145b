package middleware

import "github.com/tokenbucket-go/ratelimit/core"

// slots are the decisions whose slots a request holds until its response is
// over.
type slots []core.Result

// keepSlots has core prolong the slots of decisions until release. It returns
// nil if they have none.
func keepSlots(decisions []core.Result) (s slots) {
	for _, r := range decisions {
		if keep(r) {
			s = append(s, r)
		}
	}
	return s
}

// release gives back, once, the slots that the app does not hold.
func (s slots) release() {
	for _, r := range s {
		releaseSoon(r)
	}
}
