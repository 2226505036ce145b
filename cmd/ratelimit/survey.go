package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// definition is what the keys of one limit say of its definition.
type definition struct {
	policy, limit string
	keys, changed int64
	capacity      int64     // of the other definition that wrote last
	last          time.Time // when it did
}

// survey looks at all keys: whether they can be read, and whether the limits of
// the file were last used as it defines them.
func (d *desk) survey(ctx context.Context, r *doctorResult) error {
	var l listing
	counts, definitions := make(map[string]int64), make(map[[2]string]*definition)
	unreadable, why := []string{}, ""
	err := pace.Each(ctx, d.flags.rate, d.keys(ctx, "", &l), func(b redisstore.Bucket) (redisstore.BucketState, error) {
		if !d.has(b.Policy) {
			_, _, err := d.store.Records(ctx, b.Policy, b.Key)
			return redisstore.BucketState{}, err
		}
		rules, err := d.rulesOf(ctx, b.Policy)
		if err != nil {
			return redisstore.BucketState{}, err
		}
		_, found, err := rules.last(ctx, d.store, b.Key)
		if len(rules.overrides[b.Key]) > 0 { // its limits may have changed since it was used
			found = redisstore.BucketState{}
		}
		return found, err
	}, func(b redisstore.Bucket, found redisstore.BucketState, err error) error {
		counts[b.Policy]++
		if errors.As(err, new(*store.StateError)) {
			unreadable, why = append(unreadable, show.Text(b.Policy)+" "+show.Key(b.Key)), err.Error()
			return nil
		}
		for _, l := range found.Limits {
			name := [2]string{b.Policy, l.Limit.Name}
			if definitions[name] == nil {
				definitions[name] = &definition{policy: name[0], limit: name[1]}
			}
			definitions[name].note(l)
		}
		return err
	})
	if err != nil {
		return d.explain(err)
	}
	for _, err := range l.failed {
		r.add(levelNote, "keys", err.Error(), "Keys of this server are not looked at. Listing needs +scan, which limiters don't need.")
	}
	r.keys(counts, d)
	if n := len(unreadable); n > 0 {
		r.add(levelFault, "unreadable", fmt.Sprintf("%s can't be read, such as %s: %s", show.Some(int64(n), "key"), strings.Join(unreadable[:min(n, mostSimilar)], ", "), why),
			"OnFailure decides for them. ratelimit reset makes one full again; if a later version wrote them, finish the deployment (RL716).")
	} else {
		r.add(levelOK, "unreadable", "every key can be read", "")
	}
	r.definitions(definitions, d)
	return nil
}

func (s *definition) note(l redisstore.LimitState) {
	if s.keys++; !l.Changed {
		return
	}
	if s.changed++; l.Written.After(s.last) {
		s.last, s.capacity = l.Written, l.Capacity
	}
}

func (r *doctorResult) keys(counts map[string]int64, d *desk) {
	total := int64(0)
	var known, unknown []string
	for _, policy := range slices.Sorted(maps.Keys(counts)) {
		total += counts[policy]
		one := show.Text(policy) + " " + show.Count(counts[policy])
		known = append(known, one)
		if !d.has(policy) {
			unknown = append(unknown, one)
		}
	}
	r.add(levelOK, "keys", strings.TrimSuffix(show.Some(total, "key")+": "+strings.Join(known, ", "), ": "), "")
	if d.policies != nil && len(unknown) > 0 {
		r.add(levelNote, "policies", "keys of policies that the file lacks: "+strings.Join(unknown, ", "), "A renamed or removed policy, or another service's. They expire by themselves; --prefix keeps services apart.")
	}
}

func (r *doctorResult) definitions(definitions map[[2]string]*definition, d *desk) {
	if d.policies == nil {
		r.add(levelNote, "definitions", "not compared", "Give the service's --policies FILE.")
		return
	}
	changed := false
	for _, name := range slices.SortedFunc(maps.Keys(definitions), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		s := definitions[name]
		if s.changed == 0 {
			continue
		}
		changed = true
		r.add(levelFault, "definitions", fmt.Sprintf("%s, limit %s: %s of %s were last used under another definition, of capacity %s or another rate, the latest at %s",
			show.Text(s.policy), show.Text(s.limit), show.Count(s.changed), show.Some(s.keys, "key"), show.Count(s.capacity), instant(s.last)),
			"If that time goes on, two definitions are in use: deploy one, or rename one of the policies. If not, it was a deployment. Tiers by WithLimits look alike, and are right.")
	}
	if !changed {
		r.add(levelOK, "definitions", "every limit was last used with the capacity that the file gives it; another rate is not always seen", "")
	}
}
