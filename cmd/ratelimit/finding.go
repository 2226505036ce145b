package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// foundKey is a key of a customer.
type foundKey struct {
	Policy string        `json:"policy"`               // whose key it is
	Key    string        `json:"key"`                  // as other commands take it
	Bytes  []byte        `json:"key_base64,omitempty"` // the key itself, if key is quoted
	State  *state.Bucket `json:"state,omitempty"`      // of the key, if the policy is known: see get
	Error  string        `json:"error,omitempty"`      // why the state can't be read
	bucket redisstore.Bucket
}

// foundException is an override or a block of a customer.
type foundException struct {
	Policy string `json:"policy"`               // whose exception it is
	Key    string `json:"key"`                  // as other commands take it
	Bytes  []byte `json:"key_base64,omitempty"` // the key itself, if key is quoted
	Kind   string `json:"kind"`                 // override or block
	stored string
}

// finding is what find or forget found.
type finding struct {
	output.Head

	Looked  int        `json:"looked_at"`                 // how many keys were looked at
	Hashes  int        `json:"hashes"`                    // how many of the others are or have the hash of a key above 128 bytes
	Kinds   int        `json:"kinds,omitempty"`           // how many of the others begin with the name, as what they name
	Several string     `json:"several_because,omitempty"` // why those found may be of more than one customer, in words
	Deleted int        `json:"deleted"`                   // how many keys forget deleted
	Found   []foundKey `json:"found"`                     // the customer's keys

	Exceptions []foundException `json:"exceptions"`             // the customer's overrides and blocks in Redis
	Changes    int              `json:"history_changes"`        // how many changes in histories of exceptions are of the customer
	Denied     []foundKey       `json:"still_denied,omitempty"` // those that are denied after forget, as the policy blocks them
	changed    []redisstore.Bucket
}

// count is how many keys and exceptions there are.
func (f *finding) count() string {
	what := show.Some(int64(len(f.Found)), "key")
	if n := len(f.Exceptions); n > 0 {
		what += " and " + show.Some(int64(n), "exception")
	}
	return what
}

// find looks at all keys.
func (d *desk) find(ctx context.Context, customers []string) (*finding, error) {
	found := &finding{Found: []foundKey{}}
	search := keyparts.NewSearch(d.logged(), customers...)
	var policies []string // with exceptions
	for b, err := range d.bucketsAndPolicies(ctx) {
		if err != nil {
			return found, err
		}
		if b.Key == "" {
			policies = append(policies, b.Policy)
			continue
		}
		found.Looked++
		if search.Finds(b.Key) {
			found.Found = append(found.Found, foundKey{Policy: b.Policy, Key: d.text(b.Key), Bytes: d.keys.Bytes(b.Key), bucket: b})
		}
	}
	found.Hashes, found.Kinds = search.Hashed, search.Kinds
	slices.Sort(policies)
	if err := d.findExceptions(ctx, slices.Compact(policies), search, found); err != nil {
		return found, err
	}
	found.Several = search.Several()
	slices.SortFunc(found.Found, func(a, b foundKey) int {
		return strings.Compare(a.Policy+"\x00"+a.bucket.Key, b.Policy+"\x00"+b.bucket.Key)
	})
	return found, nil
}

// logged returns the hash that logs have of a key, or nil without a secret.
func (d *desk) logged() func(key string) string {
	if d.secret == "" {
		return nil
	}
	return func(key string) string { return show.Hash([]byte(d.secret), key) }
}

// findExceptions looks at all exceptions of policies.
func (d *desk) findExceptions(ctx context.Context, policies []string, search *keyparts.Search, found *finding) error {
	found.Exceptions = []foundException{}
	for _, policy := range policies {
		list, err := d.Store.Exceptions(ctx, policy)
		switch {
		case err != nil && list == nil && d.missed.note(err):
			continue
		case err != nil && list == nil:
			return err
		case err != nil:
			_, _ = fmt.Fprintf(d.errs, "warning: %v\n", err)
		}
		for _, e := range list {
			kind := "override"
			if e.Blocks() {
				kind = "block"
			}
			if search.Finds(e.Key) {
				found.Exceptions = append(found.Exceptions, foundException{policy, d.text(e.Key), d.keys.Bytes(e.Key), kind, e.Key})
			}
		}
		if err := d.findChanges(ctx, policy, search, found); err != nil {
			return err
		}
	}
	return nil
}

// forget deletes what was found, and notes which requests are denied
// afterwards.
func (d *desk) forget(ctx context.Context, found *finding) error {
	err := pace.Each(ctx, d.live.rate, withoutErrors(found.Found), func(k foundKey) (foundKey, error) {
		return k, d.Store.Reset(context.WithoutCancel(ctx), k.bucket.Policy, k.bucket.Key) // what is begun is ended
	}, func(_, _ foundKey, err error) error {
		if err == nil {
			found.Deleted++
		}
		return err
	})
	if err != nil {
		return cli.After(d.Explain(err), "%s of %s were deleted.", show.Count(int64(found.Deleted)), show.Some(int64(len(found.Found)), "key"))
	}
	if err := d.endExceptions(ctx, found); err != nil {
		return cli.After(d.Explain(err), "%s deleted, but not all exceptions, or not all of their history: forget them again.", show.Some(int64(found.Deleted), "key"))
	}
	keys := slices.Clone(found.Found)
	for _, e := range found.Exceptions {
		if bucket := (redisstore.Bucket{Policy: e.Policy, Key: e.stored}); !slices.ContainsFunc(keys, func(k foundKey) bool { return k.bucket == bucket }) {
			keys = append(keys, foundKey{Policy: e.Policy, Key: e.Key, Bytes: e.Bytes, bucket: bucket})
		}
	}
	if err := d.look(ctx, keys); err != nil {
		return cli.After(err, "%s deleted.", found.count())
	}
	for _, k := range keys {
		if k.State != nil && !k.State.Allowed && !d.policies[k.Policy].Shadow {
			found.Denied = append(found.Denied, k)
		}
	}
	return nil
}

// endExceptions removes exceptions, and then what their history says of their
// keys.
func (d *desk) endExceptions(ctx context.Context, found *finding) error {
	changed := found.changed
	for _, e := range found.Exceptions {
		r := redisstore.Removal{Key: e.stored, Override: e.Kind != "block", By: systemUser(), Reason: "forget"}
		if _, err := d.Store.RemoveException(ctx, e.Policy, r); err != nil {
			return err
		}
		changed = append(changed, redisstore.Bucket{Policy: e.Policy, Key: e.stored})
	}
	for _, of := range changed {
		if _, err := d.Store.ForgetHistory(ctx, of.Policy, of.Key); err != nil {
			return err
		}
	}
	return nil
}

// look adds the states of keys whose policies are known. It returns the error
// of ctx alone.
func (d *desk) look(ctx context.Context, list []foundKey) error {
	byPolicy := make(map[string]*oncall.Rules)
	for i := 0; i < len(list) && ctx.Err() == nil; i++ {
		k := &list[i]
		if _, ok := d.policies[k.Policy]; !ok {
			continue
		}
		rules, err := byPolicy[k.Policy], error(nil)
		if rules == nil {
			var limiter *core.Limiter
			if limiter, err = d.limiterOf(ctx, k.Policy); err == nil {
				rules = d.rulesOf(ctx, limiter)
				byPolicy[k.Policy] = rules
			}
		}
		if err == nil {
			k.State, err = state.Of(ctx, rules, k.bucket.Key, nil)
		}
		if err != nil {
			k.Error = err.Error()
			continue
		}
		k.State.Key, k.State.Bytes = k.Key, k.Bytes
	}
	return ctx.Err()
}
