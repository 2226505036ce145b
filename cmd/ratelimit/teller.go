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
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
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

// check returns a mistake in the limit's name, if neither the policy nor an
// override has such a limit that can get tokens.
func (t *teller) check(ctx context.Context, list []string) error {
	_, err := t.limit(ctx, "nobody") // the policy's own limits
	for i := 0; err != nil && (cli.IsMisuse(err) || t.missed.note(err)) && i < len(list); i++ {
		switch _, other := t.limit(ctx, list[i]); {
		case other == nil:
			return nil
		case cli.IsMisuse(other) && !cli.IsMisuse(err): // it is known now
			err = other
		}
	}
	return t.Explain(err)
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

// alone returns a limiter of one limit, so that the others of its unit keep
// their tokens. A limit's name says which bucket it is.
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
	var sum credited
	last := "none"
	err := pace.Each(ctx, t.live.rate, withoutErrors(list), func(key string) (*state.Bucket, error) {
		ctx := context.WithoutCancel(ctx) // what is begun is ended, so that it is known which keys have their tokens
		if _, err := t.give(ctx, key); err != nil {
			return nil, err
		}
		return state.Sketch(ctx, t.rules, key, nil)
	}, func(key string, b *state.Bucket, err error) error {
		last = t.text(key)
		err = t.note(&sum, b, err)
		t.progress.show(show.Count(sum.keys)+" credited", sum.keys, int64(len(list)))
		return err
	})
	t.progress.clear()
	if err != nil {
		failed := ""
		if sum.failed > 0 {
			failed = ", and whether " + show.Some(sum.failed, "key") + " of these got tokens is not known"
		}
		return cli.After(t.Explain(err), "%s of %s were credited: those up to %s, in the order of their names%s.", show.Count(sum.keys), show.Some(int64(len(list)), "key"), last, failed)
	}
	_ = show.About(s.Out, t.limiter.Name(), fmt.Sprintf("credited %s to limit %s of %s.", show.Some(t.n, "token"), t.name, show.Some(sum.keys, "key")))
	if sum.lacking+sum.unreadable > 0 {
		_ = show.Paragraph(s.Out, 4, "  Left as they are: "+show.Some(sum.lacking, "key")+" with an override that lacks this limit, and "+show.Count(sum.unreadable)+" that could not be read.")
	}
	denied := sum.denied > 0 && !t.policies[t.limiter.Name()].Shadow
	if denied {
		_, _ = fmt.Fprintf(s.Out, "  The next request of %s is still denied: see ratelimit list -denied.\n", show.Some(sum.denied, "key"))
	}
	_, _ = fmt.Fprintln(s.Out, "  "+lingering)
	if err := t.incomplete("and keys got nothing:"); err != nil || !denied {
		return err
	}
	return cli.ErrFound
}

// credited is what became of the keys that tokens were for.
type credited struct {
	keys       int64 // that got them
	denied     int64 // of these, those whose next request is denied
	lacking    int64 // that have no such limit
	unreadable int64
	failed     int64 // for which Redis did not answer
}

// note adds to sum what became of a key. It returns an error that ends the
// work.
func (t *teller) note(sum *credited, b *state.Bucket, err error) error {
	switch {
	case err == nil && !b.Allowed:
		sum.keys, sum.denied = sum.keys+1, sum.denied+1
	case err == nil:
		sum.keys++
	case errors.As(err, new(*store.StateError)):
		sum.unreadable++
	case cli.IsMisuse(err): // an override without this limit
		sum.lacking++
	case !t.missed.note(err):
		sum.failed++
		return err
	}
	return nil
}
