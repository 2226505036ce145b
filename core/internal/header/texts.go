package header

import (
	"strconv"

	"github.com/tokenbucket-go/ratelimit/core/internal/bucket"
	"github.com/tokenbucket-go/ratelimit/core/internal/limit"
	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Style is a core.HeaderStyle.
type Style uint8

// The styles, as package core documents them. 0 is Legacy and Draft8.
const (
	Legacy Style = 1 << iota
	Draft8
	Draft6
	None
)

// Valid reports whether the styles of s can be combined.
func (s Style) Valid() bool {
	return s <= Legacy|Draft8 || s == Draft6 || s == Draft6|Legacy || s == None
}

// Texts holds the parts of header fields that are the same in every response of a policy.
type Texts struct {
	limits     []limit.Limit
	policy     string   // value of RateLimit-Policy under Draft8
	draft6     string   // value of RateLimit-Policy under Draft6
	members    []string // the limits' names, quoted as in the RateLimit field
	capacities []string // the limits' capacities in digits
}

// NewTexts returns the texts of limits, each of which has a name.
func NewTexts(limits []limit.Limit) *Texts {
	t := &Texts{limits: limits}
	var policy, draft6 []byte // "burst";q=20;w=2 and, for draft 6, 20;w=2
	for i, l := range limits {
		if i > 0 {
			policy, draft6 = append(policy, ", "...), append(draft6, ", "...)
		}
		member, capacity := string(printable.AppendString(nil, l.Name)), strconv.FormatInt(l.Capacity, 10)
		t.members, t.capacities = append(t.members, member), append(t.capacities, capacity)
		unit, window := "", ""
		if l.OtherUnit() {
			unit = l.Unit
		}
		if l.Mode != bucket.Concurrent {
			window = ";w=" + strconv.FormatInt(l.Spec().Window(), 10)
		} else if unit == "" {
			unit = "concurrent-requests"
		}
		policy = append(policy, member+";q="+capacity+window...)
		if unit != "" {
			policy = printable.AppendString(append(policy, ";qu="...), unit)
		}
		draft6 = append(draft6, capacity+window...)
	}
	t.policy, t.draft6 = string(policy), string(draft6)
	return t
}
