package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
)

// deskFlags are the flags of commands about buckets.
type deskFlags struct {
	redisFlags

	file string
}

func (f *deskFlags) define(cmd *cobra.Command) {
	f.redisFlags.define(cmd)
	cmd.Flags().StringVar(&f.file, "policies", "", "the policy `file` of the service")
}

// desk is what commands about buckets work with.
type desk struct {
	*server

	policies map[string]core.Policy // nil: no file is given
	file     string
	errs     io.Writer // for warnings

	mu    sync.Mutex // guards rules
	rules map[string]*rules
}

// open reads the policies, if a file is given, and connects to a master. policy
// is "" or must be in the file.
func (f *deskFlags) open(cmd *cobra.Command, policy string) (*desk, error) {
	d, err := f.openAny(cmd, policy)
	if err != nil {
		return nil, err
	}
	if err := d.master(); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// openAny is open, and takes a replica too.
func (f *deskFlags) openAny(cmd *cobra.Command, policy string) (*desk, error) {
	d := &desk{file: f.file, errs: cmd.ErrOrStderr(), rules: make(map[string]*rules)}
	if f.file != "" {
		var err error
		if d.policies, err = loadPolicies(cmd, f.file); err != nil {
			return nil, err
		}
		if policy != "" && !d.has(policy) {
			return nil, misuse("policy %s is not in %s%s", show.Text(policy), f.file, meant(policy, slices.Sorted(maps.Keys(d.policies))))
		}
	}
	var err error
	d.server, err = f.redisFlags.open(cmd)
	return d, err
}

// meant is a hint at the name that a misspelt one means, or at all names.
func meant(name string, names []string) string {
	if near := nearest(name, names); near != "" {
		return ": did you mean " + show.Text(near) + "?"
	}
	if len(names) == 0 {
		return ""
	}
	shown := make([]string, len(names))
	for i, n := range names {
		shown[i] = show.Text(n)
	}
	return " (there are " + strings.Join(shown, ", ") + ")"
}

// has reports whether the file has a policy.
func (d *desk) has(policy string) bool {
	_, ok := d.policies[policy]
	return ok
}

// rulesOf returns what is in force in a policy that the file has, with the
// exceptions that are in Redis. Failures of Redis are errors.
func (d *desk) rulesOf(ctx context.Context, policy string) (*rules, error) {
	p := d.policies[policy]
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.rules[policy]; r != nil {
		return r, nil
	}
	p.Shadow, p.OnFailure, p.LocalShare = false, core.FailClosed, 0
	limiter, err := core.NewLimiter(d.store, p)
	if err != nil {
		return nil, err
	}
	if err := d.store.ReadExceptions(ctx, limiter); err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(d.errs, "warning: not all overrides and blocks of %s are known: %s\n", show.Text(policy), show.Visible(d.explain(err).Error()))
	}
	d.rules[policy] = rulesOf(limiter)
	return d.rules[policy], nil
}

// forget has rulesOf read what is in Redis again, after a change.
func (d *desk) forget(policy string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.rules, policy)
}

// similarity is what keys in Redis have in common with one that Redis lacks.
type similarity struct {
	Similar  []string `json:"similar,omitempty"`  // keys of the policy that may be meant: of the same client, or spelt much alike
	Policies []string `json:"policies,omitempty"` // policies that have keys, if this one has none
}

const (
	mostSimilar  = 3
	mostCompared = 100_000
)

// longestSearch is how long similar looks. Tests make it longer.
var longestSearch = 5 * time.Second

// similar looks for keys that somebody may have meant by one, for a few seconds
// at most. It finds nothing if the user may not list keys.
func (d *desk) similar(ctx context.Context, policy, key string) (found similarity) {
	ctx, cancel := context.WithTimeout(ctx, longestSearch)
	defer cancel()
	given, looked, known := keyparts.Of(key), 0, make(map[string]bool)
	var same, near []string
	fewest := 0
	for b, err := range d.keys(ctx, "", new(listing)) {
		if err != nil || len(same) == mostSimilar || looked == mostCompared {
			break
		}
		if known[b.Policy] = true; b.Policy != policy || b.Key == key {
			continue
		}
		looked++
		other := keyparts.Of(b.Key)
		if given.SameClient(other) {
			same = append(same, b.Key)
		} else if n, ok := given.Distance(other); ok && (near == nil || n < fewest) {
			near, fewest = []string{b.Key}, n
		}
	}
	if same == nil {
		same = near
	}
	slices.Sort(same)
	for _, key := range same {
		found.Similar = append(found.Similar, show.Key(key))
	}
	if !known[policy] && d.policies == nil {
		found.Policies = slices.Sorted(maps.Keys(known))
	}
	return found
}

// found reports whether another key or policy may be meant.
func (s *similarity) found() bool { return len(s.Similar)+len(s.Policies) > 0 }

// Text writes what was found.
func (s *similarity) Text(w *show.Writer) {
	if len(s.Similar) > 0 {
		w.Line("  Did you mean %s?", strings.Join(s.Similar, ", or "))
	}
	if len(s.Policies) > 0 {
		shown := make([]string, len(s.Policies))
		for i, name := range s.Policies {
			shown[i] = show.Text(name)
		}
		w.Line("  Redis has keys of other policies: %s.", strings.Join(shown, ", "))
	}
}
