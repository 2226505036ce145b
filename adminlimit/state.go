package adminlimit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// State is what the page shows, and its JSON.
type State struct {
	Version int       `json:"version"` // of this JSON: 1, until a member goes away or means something else
	By      string    `json:"by"`      // who asked
	Actions []string  `json:"actions"` // what a POST can do here
	Error   string    `json:"error,omitempty"`
	Done    string    `json:"done,omitempty"`   // what a POST has changed
	Bucket  *Bucket   `json:"bucket,omitempty"` // of the key that a POST was about, after the change
	Denied  []Denials `json:"denied"`           // by policy; null: nothing counts denials
	Redis   *Redis    `json:"redis,omitempty"`
	InForce []Policy  `json:"policies"`
}

// Policy is a policy that this process obeys, and its exceptions.
type Policy struct {
	Name      string              `json:"name"`
	Hash      string              `json:"hash"` // differs if the policy does: the first 12 hex digits of the SHA-256 of its JSON
	Limits    []string            `json:"limits"`
	Plans     map[string][]string `json:"plans,omitempty"`
	Overrides int                 `json:"overrides"` // how many keys have limits of their own by the policy
	Blocked   int                 `json:"blocked"`   // how many keys the policy blocks
	OnFailure string              `json:"on_failure"`
	Shadow    bool                `json:"shadow"`

	// Exceptions are those that operators have set, and this process obeys.
	Exceptions []Exception `json:"exceptions"`

	// Followed says that this process asks Redis for changes of exceptions
	// again and again. It did so ExceptionsAge seconds ago, with success.
	Followed      bool    `json:"followed"`
	ExceptionsAge float64 `json:"exceptions_age_seconds"`
}

// Exception blocks a key, or gives it other limits.
type Exception struct {
	Key     string    `json:"key"`
	Blocked bool      `json:"blocked,omitempty"`
	Limits  []string  `json:"limits,omitempty"` // none: it is a block
	Until   time.Time `json:"until,omitzero"`   // zero: until it is removed
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// Redis is how the store does.
type Redis struct {
	Breaker   string  `json:"breaker"` // closed if Redis answers, open or half-open if not
	Opened    int64   `json:"opened"`  // how often that has happened
	Away      float64 `json:"away_seconds"`
	Calls     int64   `json:"calls"`
	Decisions int64   `json:"decisions"` // that the calls carried
}

// inForce notes in s who is denied, how the store does, and what is in force.
func (h *handler) inForce(s *State) {
	ages := make(map[string]float64)
	if h.Redis != nil {
		stats := h.Redis.Stats()
		s.Redis = &Redis{stats.Breaker.String(), stats.Opened, stats.Away.Seconds(), stats.Calls, stats.Decisions}
		for _, e := range stats.Exceptions {
			ages[e.Policy] = e.Age.Seconds()
		}
	}
	for _, l := range h.Limiters {
		p := l.Policy()
		one := Policy{
			Name: p.Name, Hash: hashOf(p), Limits: texts(p.Limits), Overrides: len(p.Overrides), Blocked: len(p.Blocked),
			OnFailure: p.OnFailure.String(), Shadow: p.Shadow, Exceptions: exceptionsOf(l),
		}
		for name, limits := range p.Plans {
			if one.Plans == nil {
				one.Plans = make(map[string][]string)
			}
			one.Plans[name] = texts(limits)
		}
		one.ExceptionsAge, one.Followed = ages[p.Name]
		s.InForce = append(s.InForce, one)
	}
	if h.Denied == nil {
		return
	}
	s.Denied = slices.DeleteFunc(h.Denied.Report(), func(d Denials) bool { return h.byName[d.Policy] == nil })
	for _, d := range s.Denied {
		for i := range d.Keys {
			d.Keys[i].Key = text(d.Keys[i].Key)
		}
	}
}

// exceptionsOf returns what operators have set and l obeys, sorted by key.
func exceptionsOf(l *core.Limiter) []Exception {
	e, list := l.Exceptions(), []Exception{}
	add := func(key string, limits []core.Limit, note store.ExceptionNote) {
		list = append(list, Exception{
			Key: text(key), Blocked: len(limits) == 0, Limits: texts(limits), Until: note.Until, By: text(note.By), Reason: text(note.Reason),
		})
	}
	for _, key := range slices.Sorted(maps.Keys(e.Overrides)) {
		add(key, e.Overrides[key], e.OverrideNotes[key])
	}
	for _, key := range e.Blocked {
		add(key, nil, e.BlockNotes[key])
	}
	slices.SortStableFunc(list, func(a, b Exception) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// hashOf returns a text that differs if policies do.
func hashOf(p core.Policy) string {
	definition, err := json.Marshal(p)
	if err != nil { // a time zone without a name, which no file can have
		definition = fmt.Append(nil, p)
	}
	sum := sha256.Sum256(definition)
	return hex.EncodeToString(sum[:6])
}

func texts(limits []core.Limit) []string {
	list := make([]string, len(limits))
	for i, l := range limits {
		list[i] = l.String()
	}
	return list
}
