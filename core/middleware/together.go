package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/field"
)

const twiceMessage = "ratelimit: a request was charged twice by one policy for the same key; check whether its middleware is installed twice"

// warnTwice warns that limiter has charged this key already, in outer.
func warnTwice(w *warnings, x Request, outer *Decision, limiter *core.Limiter, key string) {
	for o := outer; o != nil; o = o.outer {
		if !o.isMarker() && o.limiter.Name() == limiter.Name() && o.key == key {
			w.log(logger(limiter), slog.LevelWarn, twiceMessage, "RL704", limiter.Name(), x.Path())
		}
	}
}

// joint is the decision of several limiters.
type joint struct {
	result core.Result
	rules  []owner
	by     *middleware
}

// decideTogether sets the decisions of a and stores them in j. A rule in shadow
// mode that can't decide, because its key is missing or it counts nothing that
// requests take, has no decision: it must not refuse the request. warn gets the
// error.
func decideTogether[C any](rules []rule[C], o *Options[C], c C, a *Admission, wait bool, j *joint, warn func(error)) (fromUser bool, err error) {
	var missing error
	policies := snapshots(rules)
	var charges []core.Charge
	for i, r := range rules {
		fromUser = true
		key, err := call(r.Key, c)
		if err == nil && o.Units == nil && !counts(policies[i], "", core.Requests) {
			fromUser, err = false, fmt.Errorf("policy %q: %w: %s", r.Limiter.Name(), core.ErrUnit, core.Requests)
		}
		switch {
		case err == nil:
			j.rules = append(j.rules, owner{r.Limiter, key})
			charges = append(charges, core.Charge{Limiter: policies[i], Key: key, Units: core.Units{}})
		case !policies[i].Policy().Shadow:
			return fromUser, err
		default:
			missing = err
		}
	}
	if missing != nil {
		if len(j.rules) == 0 {
			return true, missing
		}
		warn(missing)
	}
	take, err := o.charge(c)
	if err != nil {
		return true, err
	}
	take.spread(charges, j.rules)
	for unit := range take.units {
		if unit != core.Requests && !slices.ContainsFunc(policies, func(l *core.Limiter) bool { return counts(l, "", unit) }) {
			return true, functionError{"units", fmt.Errorf("%w: %q", core.ErrUnit, unit)}
		}
	}
	if wait {
		err = j.await(a.ctx, o.deciding, take.nothing(), charges)
	} else {
		j.result, err = core.AllowTogether(o.deciding(a.ctx), charges...)
	}
	if err != nil {
		return false, err
	}
	a.joint, a.Result = j, j.result
	return false, nil
}

// snapshots returns the rules' limiters as they are now, for one decision.
func snapshots[C any](rules []rule[C]) []*core.Limiter {
	limiters := make([]*core.Limiter, len(rules))
	for i, r := range rules {
		if j := slices.IndexFunc(rules[:i], func(o rule[C]) bool { return o.Limiter == r.Limiter }); j >= 0 {
			limiters[i] = limiters[j]
			continue
		}
		limiters[i] = snapshot(r.Limiter)
	}
	return limiters
}

// owner is whose decision it is.
type owner struct {
	limiter *core.Limiter
	key     string
}

// await sets the decisions of a request that waits.
func (j *joint) await(ctx context.Context, deciding func(context.Context) context.Context, nothing bool, charges []core.Charge) error {
	return wait(ctx, j.rules[0].limiter, j.key(), nothing, func() (denied []core.Result, err error) {
		j.result, err = core.AllowTogether(deciding(ctx), charges...)
		return j.denied(), err
	})
}

// denied returns the decisions that deny; nil: the request is allowed.
func (j *joint) denied() (denied []core.Result) {
	if j.result.Allowed {
		return nil
	}
	for _, r := range j.result.Parts {
		if !r.Allowed {
			denied = append(denied, r)
		}
	}
	return denied
}

// key returns the key behind which requests of the same buckets wait.
func (j *joint) key() string {
	keys := make([]string, len(j.rules))
	for i, k := range j.rules {
		keys[i] = core.JoinKey(k.limiter.Name(), k.key)
	}
	return core.JoinKey(keys...)
}

// answer stores the decisions with the request, the tightest in front and all
// in front of outer, and sets the header fields of the response, those of the
// tightest last: it decides on the fields that have one value.
func (j *joint) answer(x Request, outer *Decision) {
	for _, k := range j.rules {
		warnTwice(j.by.warnings, x, outer, k.limiter, k.key)
	}
	for _, i := range order(j.result) {
		packed, _ := pack(j.result.Parts[i])
		outer = &Decision{packed: packed, limiter: j.rules[i].limiter, key: j.rules[i].key, outer: outer, by: j.by}
	}
	x.SetDecision(outer)
	if fields := x.Response(); fields != nil {
		writeHeaders(j.result, new(field.Room), fields)
	}
}

// Join limits by several keys together, such as route and user. Its key is
// theirs with '|' between them, such as "route:/items/:id|x-api-key:ann". Keys
// of extractors and of [core.JoinKey] stay as they are. Any other string that
// has a '|' or a '%', is another Join, or has more than 512 bytes, is encoded or
// hashed behind "%=", so different keys never make the same one. If one of the
// keys is missing, so is the joined one. If there are no keys, or one is nil,
// New panics.
func Join[C any, K ~func(C) (string, error)](keys ...K) K {
	if err := keyMistakes("Join", keys); err != nil {
		return Invalid[C, string](err)
	}
	return func(c C) (string, error) {
		parts := make([]string, len(keys))
		for i, key := range keys {
			part, err := call(key, c)
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return joinKeys(parts), nil
	}
}

// FirstOf limits by the first key that is not missing, such as an API key or
// else the address. It stops at an error other than [core.ErrNoKey]. If there
// are no keys, or one is nil, New panics.
func FirstOf[C any, K ~func(C) (string, error)](keys ...K) K {
	if err := keyMistakes("FirstOf", keys); err != nil {
		return Invalid[C, string](err)
	}
	return func(c C) (string, error) {
		var missing missingKeys
		for _, key := range keys {
			k, err := call(key, c)
			if err == nil || !errors.Is(err, core.ErrNoKey) {
				return k, err
			}
			missing = append(missing, err)
		}
		return "", missing
	}
}

// missingKeys is the error of FirstOf. It holds the error of each key.
type missingKeys []error

func (m missingKeys) Unwrap() []error { return m }

func (m missingKeys) Error() string {
	texts := make([]string, len(m))
	for i, err := range m {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// keyMistakes returns what is wrong with the keys that maker got.
func keyMistakes[C any, K ~func(C) (string, error)](maker string, keys []K) error {
	if len(keys) == 0 {
		return &core.ConfigError{Field: maker, Value: 0, Reason: "keys given: it needs at least one, such as ByIP()"}
	}
	var errs []error
	for i, key := range keys {
		if key == nil {
			errs = append(errs, &core.ConfigError{Field: fmt.Sprintf("%s keys[%d]", maker, i), Value: nil, Reason: "must be a key function, such as ByIP()"})
			continue
		}
		errs = append(errs, ArgumentError[C, string](key))
	}
	return errors.Join(errs...)
}

// call returns the key of c. An empty one is missing: clients would share it.
func call[C any, K ~func(C) (string, error)](key K, c C) (string, error) {
	k, err := key(c)
	if err == nil && k == "" {
		err = fmt.Errorf("%w: the key function returned an empty key", core.ErrNoKey)
	}
	return k, err
}
