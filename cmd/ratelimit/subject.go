package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// live are the flags of commands that look at buckets in Redis.
type live struct {
	conn.Flags

	file string // of policies
	mode string // of keys
	rate int    // of listings, in keys a second
}

func (l *live) define(flags *flag.FlagSet) {
	l.Define(flags)
	flags.StringVar(&l.file, "policies", "", "the policy `file`, as the service has it")
	defineKeys(flags, &l.mode)
	flags.IntVar(&l.rate, "rate", 10_000, "how many `keys` a second the server looks at for a listing; 0: as fast as it can")
}

// defineKeys defines the flag that says how keys stand in output.
func defineKeys(flags *flag.FlagSet, mode *string) {
	flags.StringVar(mode, "keys", "show", "the `mode` of keys, which can be personal data: show, hash (by the secret in "+show.SecretVariable+") or hide")
}

// desk is what a command works with.
type desk struct {
	*conn.Link

	live     *live
	keys     show.Keys
	secret   string
	policies map[string]core.Policy
	errs     io.Writer // for warnings
	missed   missed    // what a listing did without
	progress *progress
}

// open reads the policies, if there are any, and connects.
func (l *live) open(ctx context.Context, s cli.Streams) (*desk, error) {
	if l.rate < 0 {
		return nil, cli.Misuse("-rate %d must not be negative", l.rate)
	}
	secret := s.Env(show.SecretVariable)
	keys, err := show.ParseKeys(l.mode, secret)
	if err != nil {
		return nil, cli.Misuse("%v", err)
	}
	d := &desk{live: l, keys: keys, secret: secret, errs: s.Err, missed: make(missed), progress: newProgress(s)}
	if l.file != "" {
		if d.policies, err = loadPolicies(s.In, l.file); err != nil {
			if len(mistakesOf(err)) > 0 {
				return nil, cli.Misuse("%v", err)
			}
			return nil, err
		}
	}
	if d.Link, err = l.Open(ctx, s.Env); err != nil {
		return nil, err
	}
	return d, nil
}

// openPolicy is open for a command that needs a policy.
func (l *live) openPolicy(ctx context.Context, s cli.Streams, command, name string) (*desk, *core.Limiter, error) {
	if l.file == "" {
		return nil, nil, cli.Misuse("%s needs -policies FILE: without it, nobody knows the capacity and the rate", command)
	}
	d, err := l.open(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	limiter, err := d.limiterOf(ctx, name)
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	return d, limiter, nil
}

// limiterOf returns a limiter of a policy with its exceptions, which takes keys
// as the store has them. Failures of Redis are errors.
func (d *desk) limiterOf(ctx context.Context, name string) (*core.Limiter, error) {
	p, ok := d.policies[name]
	if !ok {
		return nil, cli.Misuse("policy %s is not in %s%s", show.Text(name), d.live.file, nearest(name, slices.Sorted(maps.Keys(d.policies))))
	}
	p.Shadow, p.OnFailure, p.LocalShare = false, core.FailClosed, 0
	limiter, err := core.NewLimiter(d.Store, p)
	if err != nil {
		return nil, err
	}
	if err := d.Store.ReadExceptions(ctx, limiter); err != nil && ctx.Err() == nil {
		_, _ = fmt.Fprintf(d.errs, "warning: the overrides and blocks of %s are not known, so what follows is without them: %v\n", show.Text(name), d.Explain(err))
	}
	return limiter.WithStoredKeys(), nil
}

// rulesOf returns what is in force in a limiter of limiterOf.
func (d *desk) rulesOf(ctx context.Context, limiter *core.Limiter) *oncall.Rules {
	_, ended, _ := d.Store.EndedExceptions(ctx, limiter.Name()) // limiterOf has warned
	return oncall.RulesOf(limiter, ended...)
}

// change changes one key in Redis. What is begun is ended, also if ctx ends
// meanwhile, so that the command can say whether it was done.
func (d *desk) change(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return cli.After(err, "Nothing was changed.")
	}
	err := d.Explain(do(context.WithoutCancel(ctx)))
	if err != nil && ctx.Err() != nil {
		return cli.After(err, "Whether Redis did it is not known: %v", err)
	}
	return err
}

// nearest is a hint at the name that a misspelt one means, or at all names.
func nearest(name string, names []string) string {
	if n := cli.Nearest(name, names); n != "" {
		return ": did you mean " + show.Text(n) + "?"
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

// givenKey returns the key that arguments or flags give, as the store has it.
func (d *desk) givenKey(ctx context.Context, policy, arg string, flags *keys) (string, error) {
	made, err := flags.made()
	if err != nil {
		return "", err
	}
	if arg != "" {
		key, err := takenKey(arg)
		if err != nil {
			return "", err
		}
		made = append(made, key)
	}
	switch {
	case len(made) == 0:
		return "", cli.Misuse("name a key, such as ip:192.0.2.1, or a client, such as -ip 192.0.2.1")
	case len(made) > 1:
		return "", cli.Misuse("there are %d keys: name one, or join those of flags by -join", len(made))
	case arg == "":
		return store.Key(made[0]), nil
	case oncall.IsHex(made[0], oncall.LogDigits) && d.secret != "":
		return d.loggedKey(ctx, policy, made[0])
	}
	return oncall.StoredKey(made[0]), nil
}

// takenKey returns the key that an argument gives, as output shows it.
func takenKey(arg string) (string, error) {
	key, err := oncall.GivenKey(arg)
	if err == nil && key == "" {
		err = errors.New("a key has at least one byte")
	}
	if err != nil {
		return "", cli.Misuse("%s: %v", show.Text(arg), err)
	}
	return key, nil
}

// loggedKey returns the key whose hash stands in logs.
func (d *desk) loggedKey(ctx context.Context, policy, hash string) (string, error) {
	for b, err := range d.buckets(ctx, policy) {
		if err != nil {
			return "", d.Explain(err)
		}
		if show.Hash([]byte(d.secret), b.Key) == hash {
			return b.Key, nil
		}
	}
	if err := d.incomplete("and no other has a key with this hash:"); err != nil {
		return "", err
	}
	return store.Key(hash), nil // it may be a key of its own
}

// nearestKeys returns up to three keys of a policy that exist and are like
// another one: first those that name the same client, then the one that differs
// in a few letters of that name. It looks for a few seconds at most, and finds
// none if the user may not list keys.
func (d *desk) nearestKeys(ctx context.Context, policy, key string) (list []string) {
	const most = 3
	ctx, cancel := context.WithTimeout(ctx, longestSearch)
	defer cancel()
	search, given, nearest, fewest := keyparts.NewSearch(nil, key), keyparts.Of(key), "", 0
	looked := 0
	for b, err := range d.buckets(ctx, policy) {
		if err != nil || len(list) == most || looked > mostCompared {
			break
		}
		if looked++; b.Key == key {
			continue
		}
		other := keyparts.Of(b.Key)
		if search.Finds(b.Key) || given.Within(other) || other.Within(given) {
			list = append(list, b.Key)
		} else if n, near := given.Distance(other); near && (nearest == "" || n < fewest) {
			nearest, fewest = b.Key, n
		}
	}
	if len(d.missed) > 0 {
		return nil // the key may be where nobody answers
	}
	if len(list) == 0 && nearest != "" {
		list = append(list, nearest)
	}
	return list
}

// meant is a question for the keys that a key without a bucket may mean, or "".
func (d *desk) meant(ctx context.Context, policy, key string) string {
	var keys []string
	for _, other := range d.nearestKeys(ctx, policy, key) {
		keys = append(keys, d.text(other))
	}
	if len(keys) == 0 {
		return ""
	}
	return " Did you mean " + strings.Join(keys, ", or ") + "?"
}

// text is a key as it may be shown.
func (d *desk) text(key string) string { return d.keys.Text(key) }

// noKeys says what to check where there are no keys at all: other flags first.
func (l *live) noKeys(others string) string {
	return "  If there should be some, check " + others + "-prefix (it is " + show.Text(l.Prefix) + ") and the number of the database (-n).\n"
}

// longestSearch bounds nearestKeys.
const longestSearch = 2 * time.Second

// mostCompared bounds the keys that nearestKeys compares.
const mostCompared = 100_000
