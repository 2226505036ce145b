package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// Rights does what decisions do, with a key of its own: with tokens, slots, and a reset.
func Rights(ctx context.Context, s *redisstore.Store, user string) (f Findings) {
	limiter, err := core.NewLimiter(s, core.Policy{Name: "ratelimit-doctor", OnFailure: core.FailClosed, Limits: []core.Limit{core.PerSecond(100), core.InFlight(10)}})
	if err == nil {
		err = s.Ping(ctx)
	}
	key := rand.Text()
	if err == nil {
		var res core.Result
		if res, err = limiter.Allow(ctx, key); err == nil {
			err = errors.Join(res.Release(ctx), limiter.Reset(ctx, key))
		}
	}
	if err != nil {
		do := "Limiters of this user fail alike. docs/operations.md has the ACL user that they need."
		if strings.Contains(err.Error(), "OOM") {
			do = "Limiters fail alike, and OnFailure decides, until there is memory: raise maxmemory."
		}
		f.add("rights", Fault, user+": "+err.Error(), do)
		return f
	}
	f.add("rights", OK, user+" may do what decisions, slots and resets do", "")
	return f
}

// survey counts what the buckets of one limit say of its definition.
type survey struct {
	policy, limit    string
	keys, changed    int64
	capacity         int64     // of another definition
	last, lastChange time.Time // the last write, and the last one by another definition
}

// Buckets looks at buckets of the store, at most rate a second. policies are those of the service, or nil. text writes a key as it may be
// shown.
func Buckets(ctx context.Context, s *redisstore.Store, buckets iter.Seq2[redisstore.Bucket, error], policies map[string]core.Policy, rate int, text func(string) string) (f Findings, err error) {
	c := census{store: s, policies: policies, rules: make(map[string]*oncall.Rules), counts: make(map[string]int64), surveys: make(map[[2]string]*survey)}
	err = pace.Each(ctx, rate, c.readable(buckets), func(k keyed) (core.Inspection, error) {
		_, found, err := k.rules.Last(ctx, k.Key)
		return found, err
	}, func(k keyed, found core.Inspection, err error) error { return c.note(k.Bucket, found, err, text) })
	switch {
	case err != nil && strings.Contains(err.Error(), "NOPERM"):
		f.add("keys", Note, "this user may not list keys, so they are not looked at: "+err.Error(), "Use a user with +scan for this. Limiters don't need it.")
		return f, nil
	case err != nil:
		return nil, err
	}
	return c.findings(), nil
}

// keyed is a bucket with the rules whose limiters read it.
type keyed struct {
	redisstore.Bucket

	rules *oncall.Rules
}

// readable counts the buckets of a list, each once, and returns those that limiters can read.
func (c *census) readable(buckets iter.Seq2[redisstore.Bucket, error]) iter.Seq2[keyed, error] {
	seen := make(map[redisstore.Bucket]bool)
	return func(yield func(keyed, error) bool) {
		for b, err := range buckets {
			if err != nil {
				yield(keyed{}, err)
				return
			}
			if seen[b] {
				continue
			}
			seen[b] = true
			c.counts[b.Policy]++
			rules, err := c.rulesOf(b.Policy)
			if err != nil {
				continue // the name is no policy's, so the key is not of a limiter
			}
			if !yield(keyed{b, rules}, nil) {
				return
			}
		}
	}
}

// census is what the buckets of a store say.
type census struct {
	store      *redisstore.Store
	policies   map[string]core.Policy
	rules      map[string]*oncall.Rules
	counts     map[string]int64 // of keys, by policy
	surveys    map[[2]string]*survey
	others     int64 // keys with limits that their policies lack
	unreadable []string
	why        string
}

// rulesOf returns the rules whose limiters read a policy's keys.
func (c *census) rulesOf(name string) (*oncall.Rules, error) {
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
	c.rules[name] = oncall.RulesOf(l.WithStoredKeys())
	return c.rules[name], nil
}

// note counts what a bucket has.
func (c *census) note(b redisstore.Bucket, found core.Inspection, err error, text func(string) string) error {
	if errors.As(err, new(*store.StateError)) {
		c.unreadable, c.why = append(c.unreadable, show.Text(b.Policy)+" "+text(b.Key)), err.Error()
		return nil
	}
	if _, ok := c.policies[b.Policy]; err != nil || !ok {
		return err
	}
	if found.Others > 0 {
		c.others++
	}
	for _, limit := range found.Limits {
		name := [2]string{b.Policy, limit.Limit.Name}
		s := c.surveys[name]
		if s == nil {
			s = &survey{policy: name[0], limit: name[1]}
			c.surveys[name] = s
		}
		s.keys++
		if limit.Written.After(s.last) {
			s.last = limit.Written
		}
		if limit.Changed {
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
	f.add("keys", OK, strings.TrimSuffix(show.Some(total, "key")+": "+strings.Join(counts, ", "), ": "), "")
	if c.policies != nil && len(unknown) > 0 {
		f.add("policies", Note, "keys of policies that the file lacks: "+strings.Join(unknown, ", "), "A renamed or removed policy, or another service's. They expire by themselves; -prefix keeps services apart.")
	}
	if n := len(c.unreadable); n > 0 {
		f.add("unreadable", Fault, fmt.Sprintf("%s can't be read, such as %s: %s", show.Some(int64(n), "key"), strings.Join(c.unreadable[:min(n, shown)], ", "), c.why),
			"OnFailure decides for them. ratelimit reset makes one full again; if a later version wrote them, finish the deployment (RL716).")
	} else {
		f.add("unreadable", OK, "every key can be read", "")
	}
	if c.policies == nil {
		f.add("definitions", Note, "not compared", "Give the service's -policies FILE.")
		return f
	}
	changed := false
	for _, name := range slices.SortedFunc(maps.Keys(c.surveys), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if s := c.surveys[name]; s.changed > 0 {
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
