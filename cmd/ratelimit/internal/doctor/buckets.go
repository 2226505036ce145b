package doctor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// survey counts what the buckets of one limit say of its definition.
type survey struct {
	policy, limit    string
	keys, changed    int64
	slots, holding   int64     // that are in use, and by how many keys
	capacity         int64     // of another definition
	last, lastChange time.Time // the last write, and the last one by another definition
}

// Buckets looks at buckets of the store, at most rate a second. policies are
// those of the service, or nil. text writes a key as it may be shown.
func Buckets(ctx context.Context, s *redisstore.Store, buckets iter.Seq2[redisstore.Bucket, error], policies map[string]core.Policy, rate int, text func(string) string) (f Findings, err error) {
	c := census{store: s, policies: policies, rules: make(map[string]*oncall.Rules), counts: make(map[string]int64), surveys: make(map[[2]string]*survey)}
	err = pace.Each(ctx, rate, c.readable(ctx, buckets), func(k keyed) (last, error) {
		rules, found, err := k.rules.Last(ctx, k.Key)
		return last{found, rules}, err
	}, func(k keyed, l last, err error) error { return c.passed(c.note(k.Bucket, l, err, text)) })
	if err != nil {
		return nil, err
	}
	f = c.denied
	if c.partly && len(c.counts) == 0 {
		return f, nil
	}
	return append(f, c.findings()...), nil
}

// keyed is a bucket with the rules whose limiters read it.
type keyed struct {
	redisstore.Bucket

	rules *oncall.Rules
}

// last is what a key has, and the rules that decided it last.
type last struct {
	inspect.Bucket

	rules *oncall.Rules
}

// readable counts the buckets of a list, and returns those that limiters can
// read.
func (c *census) readable(ctx context.Context, buckets iter.Seq2[redisstore.Bucket, error]) iter.Seq2[keyed, error] {
	return func(yield func(keyed, error) bool) {
		for b, err := range buckets {
			k := keyed{Bucket: b}
			if err == nil {
				c.counts[b.Policy]++
				k.rules, _ = c.rulesOf(ctx, b.Policy)
			}
			if err = c.passed(err); err == nil && k.rules == nil {
				continue // its server failed, or its name is no policy's, so the key is not of a limiter
			}
			if !yield(k, err) {
				return
			}
		}
	}
}

// passed notes that a server is not looked at, or not wholly. It returns other
// errors.
func (c *census) passed(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "NOPERM"):
		c.denied.add("keys", Note, "this user may not list keys, so they are not looked at: "+err.Error(), "Use a user with +scan for this. Limiters don't need it.")
	case errors.As(err, new(*conn.NodeError)): // Nodes has reported it
	default:
		return err
	}
	c.partly = true
	return nil
}

// census is what the buckets of a store say.
type census struct {
	store      *redisstore.Store
	policies   map[string]core.Policy
	rules      map[string]*oncall.Rules
	counts     map[string]int64 // of keys, by policy
	surveys    map[[2]string]*survey
	others     int64    // keys with limits that their policies lack
	unread     []string // why exceptions can't be read, or are not in force
	unreadable []string
	why        string
	denied     Findings // what the user may not do
	partly     bool     // some server has not been looked at
}

// rulesOf returns the rules whose limiters read a policy's keys.
func (c *census) rulesOf(ctx context.Context, name string) (*oncall.Rules, error) {
	if r := c.rules[name]; r != nil {
		return r, nil
	}
	p, ok := c.policies[name]
	if !ok { // any limit reads the key
		p = core.Policy{Name: name, Limits: []core.Limit{core.PerSecond(1)}}
	}
	p.OnFailure, p.LocalShare = core.FailClosed, 0
	l, err := core.NewLimiter(c.store, p)
	if err != nil {
		return nil, err
	}
	var ended []string
	if ok {
		if err := c.store.ReadExceptions(ctx, l); err != nil {
			c.unread = append(c.unread, err.Error())
		}
		_, ended, _ = c.store.EndedExceptions(ctx, name)
	}
	c.rules[name] = oncall.RulesOf(l.WithStoredKeys(), ended...)
	return c.rules[name], nil
}

// note counts what a bucket has.
func (c *census) note(b redisstore.Bucket, l last, err error, text func(string) string) error {
	if errors.As(err, new(*store.StateError)) {
		c.unreadable, c.why = append(c.unreadable, show.Text(b.Policy)+" "+text(b.Key)), err.Error()
		return nil
	}
	if _, ok := c.policies[b.Policy]; err != nil || !ok {
		return err
	}
	// Others may be of the plan, or of an operator's override, that the key had
	// before.
	if !l.rules.Touched(b.Key) && (l.Newest > 0 || l.Others > 0 && !l.rules.HasPlans()) {
		c.others++
	}
	for _, limit := range l.Limits {
		name := [2]string{b.Policy, limit.Limit.Name}
		s := c.surveys[name]
		if s == nil {
			s = &survey{policy: name[0], limit: name[1]}
			c.surveys[name] = s
		}
		s.keys++
		if limit.Limit.Mode == core.Concurrent && limit.Held > 0 {
			s.slots, s.holding = s.slots+limit.Held, s.holding+1
		}
		if limit.Written.After(s.last) {
			s.last = limit.Written
		}
		if l.rules.Foreign(b.Key, limit, l.Bucket) {
			s.changed++
			if limit.Written.After(s.lastChange) {
				s.lastChange, s.capacity = limit.Written, limit.Capacity
			}
		}
	}
	return nil
}

// shown is how many keys a finding names.
const shown = 3

func (c *census) findings() (f Findings) {
	names := slices.Sorted(maps.Keys(c.counts))
	total := int64(0)
	var counts, unknown []string
	for _, name := range names {
		total += c.counts[name]
		one := fmt.Sprintf("%s %s", show.Text(name), show.Count(c.counts[name]))
		counts = append(counts, one)
		if _, ok := c.policies[name]; !ok {
			unknown = append(unknown, one)
		}
	}
	says := strings.TrimSuffix(show.Some(total, "key")+": "+strings.Join(counts, ", "), ": ")
	if c.partly {
		says += ", and those of masters that failed, which are not looked at"
	}
	f.add("keys", OK, says, "")
	if c.policies != nil && len(unknown) > 0 {
		f.add("policies", Note, "keys of policies that the file lacks: "+strings.Join(unknown, ", "), "A renamed or removed policy, or another service's. They expire by themselves; -prefix keeps services apart.")
	}
	if n := len(c.unreadable); n > 0 {
		f.add("unreadable", Fault, fmt.Sprintf("%s can't be read, such as %s: %s", show.Some(int64(n), "key"), strings.Join(c.unreadable[:min(n, shown)], ", "), c.why),
			"OnFailure decides for them. ratelimit reset makes one full again; if a later version wrote them, finish the deployment (RL716).")
	} else {
		f.add("unreadable", OK, "every key can be read", "")
	}
	for _, err := range c.unread {
		f.add("exceptions", Note, err, "Overrides and blocks that are not in force: write or remove them anew, or deploy the file that has their limits.")
	}
	if c.policies == nil {
		f.add("definitions", Note, "not compared", "Give the service's -policies FILE.")
		return f
	}
	changed := false
	for _, name := range slices.SortedFunc(maps.Keys(c.surveys), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		s := c.surveys[name]
		if s.slots > 0 {
			f.add("slots", OK, fmt.Sprintf("%s, limit %s: %s in use, of %s", s.policy, s.limit, show.Some(s.slots, "slot"), show.Some(s.holding, "key")),
				"If ratelimit_slots_in_use of all processes together is less, some have died. Theirs are free after max_hold; ratelimit reset frees all of a key.")
		}
		if s.changed > 0 {
			changed = true
			f.add("definitions", Fault, fmt.Sprintf("%s, limit %s: %s of %s were last used under another definition, of capacity %s or another rate, the latest at %s",
				s.policy, s.limit, show.Count(s.changed), show.Some(s.keys, "key"), show.Count(s.capacity), show.Instant(s.lastChange)),
				"If that time goes on, two definitions are in use: deploy one, or rename one of the policies. If not, it was a deployment. Tiers by WithLimits look alike, and are right.")
		}
	}
	if c.others > 0 {
		f.add("definitions", Note, fmt.Sprintf("%s with limits that their policies lack", show.Some(c.others, "key")), "Limits that were removed or renamed, or those of another service with the same policy name.")
	}
	if !changed {
		f.add("definitions", OK, "every limit was last used as the file defines it", "")
	}
	return f
}
