package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// teller gives tokens of one limit to keys, or takes them.
type teller struct {
	*desk

	limiter *core.Limiter
	rules   *oncall.Rules
	name    string // of the limit
	n       int64  // how many come back; below 0: are taken

	mu     sync.Mutex // guards single
	single map[core.Limit]*core.Limiter
}

// limit returns the limit of a key, as it is now.
func (t *teller) limit(ctx context.Context, key string) (core.LimitResult, error) {
	last, _, err := t.rules.Last(ctx, key)
	if err != nil {
		return core.LimitResult{}, err
	}
	res, err := last.Limiter.Peek(ctx, key)
	if err != nil {
		return core.LimitResult{}, err
	}
	var names []string
	for _, l := range res.Limits() {
		switch {
		case l.Limit.Name != t.name:
		case l.Limit.Mode == core.Concurrent:
			return l, cli.Misuse("%s counts requests at work: its slots come back when these end, after %s at the latest", t.name, maxHold(l.Limit))
		default:
			return l, nil
		}
		names = append(names, l.Limit.Name)
	}
	return core.LimitResult{}, cli.Misuse("%s has no limit %s%s", t.limiter.Name(), show.Text(t.name), nearest(t.name, names))
}

// check returns a mistake in the limit's name, if neither the policy nor an override has such a limit that can get tokens.
func (t *teller) check(ctx context.Context, list []string) error {
	_, err := t.limit(ctx, "nobody") // the policy's own limits
	for i := 0; err != nil && cli.IsMisuse(err) && i < len(list); i++ {
		if _, other := t.limit(ctx, list[i]); other == nil {
			return nil
		}
	}
	return err
}

// move gives the tokens to a key. It returns the limit before and after it.
func (t *teller) move(ctx context.Context, key string) (before, after core.LimitResult, err error) {
	if before, err = t.give(ctx, key); err == nil {
		after, err = t.limit(ctx, key)
	}
	return before, after, err
}

// give is move without a look at the limit after it.
func (t *teller) give(ctx context.Context, key string) (before core.LimitResult, err error) {
	if before, err = t.limit(ctx, key); err != nil {
		return before, err
	}
	one, err := t.alone(before.Limit)
	if err != nil {
		return before, err
	}
	unit := oncall.Unit(before.Limit)
	if t.n > 0 {
		return before, one.RefundUnits(ctx, key, core.Units{unit: t.n})
	}
	return before, one.DebitUnits(ctx, key, core.Units{unit: -t.n})
}

// alone returns a limiter of one limit, so that the others of its unit keep their tokens. A limit's name says which bucket it is.
func (t *teller) alone(l core.Limit) (*core.Limiter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.single[l]; one != nil {
		return one, nil
	}
	one, err := core.NewLimiter(t.Store, core.Policy{Name: t.limiter.Name(), Limits: []core.Limit{l}, OnFailure: core.FailClosed})
	if err != nil {
		return nil, err
	}
	t.single[l] = one.WithStoredKeys()
	return t.single[l], nil
}

// maxHold is how long a slot is held at most.
func maxHold(l core.Limit) string {
	if l.MaxHold == 0 {
		return "1 min"
	}
	return show.Duration(l.MaxHold)
}

// withoutErrors are the items of a list.
func withoutErrors[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// all gives the tokens to every key of the policy, if yes is set.
func (t *teller) all(ctx context.Context, s cli.Streams, yes bool) error {
	var list []string
	for b, err := range t.buckets(ctx, t.limiter.Name()) {
		if err != nil {
			return cli.After(t.Explain(err), "No key was credited.")
		}
		list = append(list, b.Key)
	}
	slices.Sort(list)
	list = slices.Compact(list) // SCAN may return a key twice
	if err := t.check(ctx, list); err != nil {
		return err
	}
	if !yes {
		return cli.Misuse("credit -all gives %s to limit %s of %s: add -yes to do it", show.Some(t.n, "token"), t.name, show.Some(int64(len(list)), "key"))
	}
	var done, lacking, unreadable int64
	last := "none"
	err := pace.Each(ctx, t.live.rate, withoutErrors(list), func(key string) (core.LimitResult, error) {
		return t.give(context.WithoutCancel(ctx), key) // what is begun is ended, so that it is known which keys have their tokens
	}, func(key string, _ core.LimitResult, err error) error {
		switch last = t.text(key); {
		case err == nil:
			done++
		case errors.As(err, new(*store.StateError)):
			unreadable++
		case cli.IsMisuse(err): // an override without this limit
			lacking++
		default:
			return err
		}
		t.progress.show(show.Count(done)+" credited", done, int64(len(list)))
		return nil
	})
	if err != nil {
		return cli.After(t.Explain(err), "%s of %s were credited: those up to %s, in the order of their names.", show.Count(done), show.Some(int64(len(list)), "key"), last)
	}
	t.progress.clear()
	_, _ = fmt.Fprintf(s.Out, "%s: credited %s to limit %s of %s.\n", t.limiter.Name(), show.Some(t.n, "token"), t.name, show.Some(done, "key"))
	if lacking+unreadable > 0 {
		_, _ = fmt.Fprintf(s.Out, "  Left as they are: %s with an override that lacks this limit, and %s that could not be read.\n", show.Some(lacking, "key"), show.Count(unreadable))
	}
	_, _ = fmt.Fprintln(s.Out, "  "+lingering)
	return nil
}
