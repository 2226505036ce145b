package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

var listCommand = cli.Command{
	Name: "list", Args: "POLICY", Least: 1, Most: 1,
	About: "list the clients of a policy with their state, deepest debts first",
	Details: `It looks at all keys of the policy by SCAN, on all masters of a Cluster, and prints those that owe most of their capacity, then those that
have least of it left. Redis looks at no more than -rate keys a second, so it goes on with other work.

  ratelimit list -policies policies.yaml api
  ratelimit list -policies policies.yaml -most 50 -page 2 -keys hash api
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var l listFlags
		l.live.define(flags)
		l.asked.define(flags)
		flags.IntVar(&l.most, "most", 20, "how many `keys` a page has")
		flags.IntVar(&l.page, "page", 1, "the `number` of the page to print")
		flags.BoolVar(&l.denied, "denied", false, "leave out clients whose next request is allowed")
		flags.BoolVar(&l.asJSON, "json", false, "print a JSON object")
		return l.run
	},
}

// listFlags are the flags of the command list.
type listFlags struct {
	live

	asked          asked
	most, page     int
	denied, asJSON bool
}

// listing is what list found.
type listing struct {
	output.Head

	Policy     string          `json:"policy"`            // its name
	Keys       int             `json:"keys"`              // how many keys the policy has
	Denied     int             `json:"denied"`            // how many of them would be denied now
	Unknown    int             `json:"unknown,omitempty"` // of how many the file lacks the limits that decided them last
	Unreadable int             `json:"unreadable"`        // how many can't be read
	Page       int             `json:"page"`              // which page this is, from 1
	Buckets    []*state.Bucket `json:"buckets"`           // those of the page, the deepest debts first

	matched int  // keys that are on some page
	more    bool // there is a page after this one
}

func (l *listFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	if l.most < 1 || l.page < 1 || l.page > 1_000_000/l.most {
		return cli.Misuse("-most %d and -page %d must be at least 1, and their product at most 1,000,000", l.most, l.page)
	}
	d, limiter, err := l.openPolicy(ctx, s, "list", args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	rules := d.rulesOf(ctx, limiter)
	found := listing{Policy: args[0], Page: l.page}
	all := worst{most: l.most * l.page}
	err = pace.Each(ctx, l.rate, d.buckets(ctx, args[0]), func(b redisstore.Bucket) (*state.Bucket, error) {
		return state.Sketch(ctx, rules, b.Key, l.asked.units)
	}, func(_ redisstore.Bucket, b *state.Bucket, err error) error {
		found.Keys++
		switch unreadable := (*store.StateError)(nil); {
		case errors.As(err, &unreadable):
			found.Unreadable++
			return nil
		case err != nil && d.missed.note(err):
			found.Keys--
			return nil
		case err != nil:
			return err
		case b.Unknown:
			found.Unknown++
		case !b.Allowed:
			found.Denied++
		case l.denied:
			return nil
		}
		found.matched++
		all.add(b)
		return nil
	})
	if err != nil {
		return cli.After(d.Explain(err), "%s of %s were looked at, %s denied now.", show.Some(int64(found.Keys), "key"), args[0], show.Count(int64(found.Denied)))
	}
	found.Buckets, found.more = all.page(l.page, l.most), found.matched > l.page*l.most
	for _, b := range found.Buckets {
		b.Key, b.Bytes = d.text(b.Key), d.keys.Bytes(b.Key)
	}
	if l.asJSON {
		err = output.Write(s.Out, &found)
	} else if err = found.write(s.Out); err == nil && found.Keys == 0 {
		_, err = io.WriteString(s.Out, l.noKeys(""))
	}
	return cmp.Or(err, d.incomplete("and keys are missing above:"))
}

// worst are the buckets that are worst off, of all that were added.
type worst struct {
	most int
	list []*state.Bucket
}

func (w *worst) add(b *state.Bucket) {
	if w.list = append(w.list, b); len(w.list) >= 2*w.most {
		w.cut()
	}
}

func (w *worst) cut() {
	slices.SortFunc(w.list, func(a, b *state.Bucket) int {
		switch {
		case a.Deeper(b):
			return -1
		case b.Deeper(a):
			return 1
		}
		return cmp.Compare(a.Key, b.Key)
	})
	w.list = w.list[:min(len(w.list), w.most)]
}

// page returns a page of the list, not nil.
func (w *worst) page(number, size int) []*state.Bucket {
	w.cut()
	return append([]*state.Bucket{}, w.list[min(len(w.list), (number-1)*size):min(len(w.list), number*size)]...)
}

func (f *listing) write(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s: %s, %s denied now", f.Policy, show.Some(int64(f.Keys), "key"), show.Count(int64(f.Denied)))
	if f.Unknown > 0 {
		_, _ = fmt.Fprintf(w, ", %s not known", show.Count(int64(f.Unknown)))
	}
	if f.Unreadable > 0 {
		_, _ = fmt.Fprintf(w, ", %s unreadable", show.Count(int64(f.Unreadable)))
	}
	_, _ = fmt.Fprintln(w)
	var t show.Table
	for _, b := range f.Buckets {
		t.Row("  "+b.Key, b.Line())
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if f.more {
		_, _ = fmt.Fprintf(w, "  … (-page %d goes on)\n", f.Page+1)
	}
	return nil
}
