package adminlimit

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

const (
	countedKeys     = 100 // of each policy and window
	countedPolicies = 1000
	countedFor      = time.Hour // a window
)

// Top counts who is denied most, for one to two hours, of up to 1,000 policies.
// Of each it keeps up to 200 keys: about 40 KB. The zero Top is ready for use,
// by all limiters of a process at once. Don't copy it.
type Top struct {
	mu       sync.Mutex // guards all below
	policies map[string]*windows
}

// windows are the hour under way, and the one before.
type windows struct {
	began       time.Time
	now, before window
}

// window has counts of denials. With up to countedKeys keys they are exact.
// Beyond that it drops one denial of each key and the new one (Misra and Gries,
// "Finding repeated elements", 1982). So a count is too low by dropped at most,
// which is less than the sum of all denials divided by countedKeys.
type window struct {
	keys                    map[string]*DeniedKey
	denied, shadow, dropped int64
}

// Denials is who a policy has denied most.
type Denials struct {
	Policy string      `json:"policy"`
	From   time.Time   `json:"from"`   // since then denials count
	Until  time.Time   `json:"until"`  // when they were reported
	Denied int64       `json:"denied"` // denials of all keys
	Shadow int64       `json:"shadow"` // of these, those of shadow mode, whose requests were allowed
	Keys   []DeniedKey `json:"keys"`   // the most denied first

	// Unlisted is how often a key that is not among Keys was denied at most,
	// and by how much AtLeast of one that is may be too low: less than one of
	// 100 denials.
	Unlisted int64 `json:"unlisted_at_most"`
}

// DeniedKey is how often a key was denied.
type DeniedKey struct {
	Key     string    `json:"key"`
	AtLeast int64     `json:"at_least"`
	Last    time.Time `json:"last"` // the last of these denials
}

// Observe counts a denial, also one of shadow mode. Pass it to
// [core.WithObserver]. Keys of more than 128 bytes it keeps as stores do:
// "sha256:" and the hash.
func (t *Top) Observe(_ context.Context, o core.Observation) {
	shadow := o.Outcome == core.OutcomeShadowDenied
	if o.Outcome != core.OutcomeDenied && !shadow {
		return
	}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.policies[o.Policy]
	if p == nil {
		if len(t.policies) >= countedPolicies {
			return
		}
		if t.policies == nil {
			t.policies = make(map[string]*windows)
		}
		p = &windows{began: now}
		t.policies[strings.Clone(o.Policy)] = p
	}
	p.rotate(now)
	p.now.count(store.Key(o.Key), shadow, now)
}

// rotate begins a new window if the one under way is over.
func (w *windows) rotate(now time.Time) {
	switch age := now.Sub(w.began); {
	case age >= 2*countedFor:
		*w = windows{began: now}
	case age >= countedFor:
		*w = windows{began: w.began.Add(countedFor), before: w.now}
	}
}

// count counts a denial of key, which may be a view of a buffer that its owner
// reuses. A request without a key has none.
func (w *window) count(key string, shadow bool, now time.Time) {
	w.denied++
	if shadow {
		w.shadow++
	}
	k := w.keys[key]
	switch {
	case key == "":
		return
	case k == nil && len(w.keys) >= countedKeys:
		w.dropped++
		for other, k := range w.keys {
			if k.AtLeast--; k.AtLeast == 0 {
				delete(w.keys, other)
			}
		}
		return
	case k == nil:
		if w.keys == nil {
			w.keys = make(map[string]*DeniedKey)
		}
		k = &DeniedKey{Key: strings.Clone(key)}
		w.keys[k.Key] = k
	}
	k.AtLeast++
	k.Last = now.UTC().Truncate(time.Second)
}

// Report returns who was denied most, by the names of policies.
func (t *Top) Report() []Denials {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	report := []Denials{}
	for _, name := range slices.Sorted(maps.Keys(t.policies)) {
		w := t.policies[name]
		w.rotate(now)
		d := Denials{
			Policy: name, From: w.began, Until: now.UTC().Truncate(time.Second), Denied: w.now.denied + w.before.denied,
			Shadow: w.now.shadow + w.before.shadow, Keys: []DeniedKey{}, Unlisted: w.now.dropped + w.before.dropped,
		}
		if d.Denied == 0 {
			continue
		}
		if w.before.denied > 0 {
			d.From = w.began.Add(-countedFor)
		}
		d.From = d.From.UTC().Truncate(time.Second)
		for key, k := range w.now.keys {
			sum := *k
			if before := w.before.keys[key]; before != nil {
				sum.AtLeast += before.AtLeast
			}
			d.Keys = append(d.Keys, sum)
		}
		for key, k := range w.before.keys {
			if w.now.keys[key] == nil {
				d.Keys = append(d.Keys, *k)
			}
		}
		slices.SortFunc(d.Keys, func(a, b DeniedKey) int {
			return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), strings.Compare(a.Key, b.Key))
		})
		report = append(report, d)
	}
	return report
}
