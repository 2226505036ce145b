package denied

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is who was denied most, as JSON too. Bytes of keys that are not UTF-8
// become U+FFFD in JSON.
type Report struct {
	Hashed   bool     `json:"hashed"`   // keys are hashes
	Policies []Policy `json:"policies"` // those that deny
}

// Policy is what was denied of a policy.
type Policy struct {
	Policy string    `json:"policy"` // its name
	From   time.Time `json:"from"`   // since then denials are counted
	Until  time.Time `json:"until"`  // when they were reported
	Denied int64     `json:"denied"` // denials of all keys, and those of shadow mode
	Shadow int64     `json:"shadow"` // of these, those of shadow mode, whose requests were allowed

	// Keys are those that were denied most, by AtLeast.
	Keys []Key `json:"keys"`

	// Unlisted bounds the denials of each key that is not among Keys: none has
	// more. It is at most Denied divided by the number of keys that are
	// counted.
	Unlisted int64 `json:"unlisted_at_most"`
}

// Key is how often a key was denied: AtLeast so often, and AtMost so often.
// They are equal while no more keys were denied than are counted, and differ by
// at most Policy.Unlisted otherwise.
type Key struct {
	Key     string    `json:"key"`      // or its hash
	AtLeast int64     `json:"at_least"` // it was denied so often at least
	AtMost  int64     `json:"at_most"`  // and so often at most
	Last    time.Time `json:"last"`     // the last denial
}

// Merge adds up reports of several processes. Bounds stay true for the sum. It
// keeps all keys: [Policy.Top] shortens.
func Merge(reports ...Report) Report {
	sum := Report{Hashed: len(reports) > 0, Policies: []Policy{}}
	byName := make(map[string]Policy)
	for _, r := range reports {
		sum.Hashed = sum.Hashed && r.Hashed
		for _, p := range r.Policies {
			if before, known := byName[p.Policy]; known {
				p = before.and(p)
			}
			byName[p.Policy] = p
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		p := byName[name]
		p.Keys = slices.Clone(p.Keys)
		p.sort()
		sum.Policies = append(sum.Policies, p)
	}
	return sum
}

// Top returns p with its first n keys. Unlisted then bounds those that are left
// out too.
func (p Policy) Top(n int) Policy {
	if n = max(0, n); n < len(p.Keys) {
		for _, k := range p.Keys[n:] {
			p.Unlisted = max(p.Unlisted, k.AtMost)
		}
		p.Keys = slices.Clone(p.Keys[:n])
	}
	return p
}

// and returns the sum of p and q, whose keys are in no order. A key that is
// listed in one alone can have as many denials in the other as an unlisted one:
// "Mergeable Summaries", Agarwal et al., 2012.
func (p Policy) and(q Policy) Policy {
	sum := Policy{
		Policy: p.Policy, From: p.From, Until: p.Until, Unlisted: p.Unlisted + q.Unlisted,
		Denied: p.Denied + q.Denied, Shadow: p.Shadow + q.Shadow,
	}
	if q.From.Before(sum.From) {
		sum.From = q.From
	}
	if q.Until.After(sum.Until) {
		sum.Until = q.Until
	}
	inQ := make(map[string]Key, len(q.Keys))
	for _, k := range q.Keys {
		inQ[k.Key] = k
	}
	sum.Keys = make([]Key, 0, len(p.Keys)+len(q.Keys))
	for _, k := range p.Keys {
		if other, both := inQ[k.Key]; both {
			delete(inQ, k.Key)
			k.AtLeast, k.AtMost = k.AtLeast+other.AtLeast, k.AtMost+other.AtMost
			if other.Last.After(k.Last) {
				k.Last = other.Last
			}
		} else {
			k.AtMost += q.Unlisted
		}
		sum.Keys = append(sum.Keys, k)
	}
	for _, k := range inQ {
		k.AtMost += p.Unlisted
		sum.Keys = append(sum.Keys, k)
	}
	return sum
}

func (p Policy) sort() {
	slices.SortFunc(p.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(b.AtMost, a.AtMost), strings.Compare(a.Key, b.Key))
	})
}
