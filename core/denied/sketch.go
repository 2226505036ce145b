package denied

import (
	"container/heap"
	"strings"
	"time"
)

// sketch counts the keys that are denied most, by Space-Saving: "Efficient
// Computation of Frequent and Top-k Elements in Data Streams", Metwally,
// Agrawal and El Abbadi, 2005. Each of its counters belongs to a key. If there
// is none for a key, it takes over the smallest counter with its count, which
// is then by how much the key's count may be too high.
//
// So the count of a key is never too low, and the smallest counter bounds what
// is too high, and every key without a counter. It is at most the sum divided
// by the number of counters.
type sketch struct {
	most         int
	byKey        map[string]*counter
	smallest     counters // a heap
	sum, shadows int64    // denials; of these, those of shadow mode
}

type counter struct {
	key         string
	count, over int64 // the key was denied count times, or fewer, by at most over
	last        time.Time
	at          int // the index in smallest
}

func newSketch(most int) *sketch { return &sketch{most: most, byKey: make(map[string]*counter)} }

// note counts a denial of key, which may be a view of a buffer that its owner
// reuses; of no key if that is empty.
func (s *sketch) note(key string, shadow bool, now time.Time) {
	s.sum++
	if shadow {
		s.shadows++
	}
	if key == "" {
		return
	}
	c := s.byKey[key]
	switch {
	case c != nil:
	case len(s.smallest) < s.most:
		c = &counter{key: strings.Clone(key), at: len(s.smallest)}
		s.byKey[c.key] = c
		heap.Push(&s.smallest, c)
	default:
		c = s.smallest[0]
		delete(s.byKey, c.key)
		c.key, c.over = strings.Clone(key), c.count
		s.byKey[c.key] = c
	}
	c.count++
	c.last = now
	heap.Fix(&s.smallest, c.at)
}

// counters are a [heap.Interface].
type counters []*counter

func (l counters) Len() int           { return len(l) }
func (l counters) Less(i, j int) bool { return l[i].count < l[j].count }
func (l *counters) Push(c any)        { *l = append(*l, c.(*counter)) }
func (l *counters) Pop() any          { panic("a counter stays") }

func (l counters) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].at, l[j].at = i, j
}

func (s *sketch) report(policy string, from, until time.Time) Policy {
	p := Policy{Policy: policy, From: seconds(from), Until: seconds(until), Denied: s.sum, Shadow: s.shadows, Keys: make([]Key, len(s.smallest))}
	for i, c := range s.smallest {
		p.Keys[i] = Key{Key: c.key, AtLeast: c.count - c.over, AtMost: c.count, Last: seconds(c.last)}
	}
	if len(s.smallest) == s.most {
		p.Unlisted = s.smallest[0].count
	}
	return p
}

func seconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
