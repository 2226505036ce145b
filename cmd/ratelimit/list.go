package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

// listResult is what list prints.
type listResult struct {
	Policy     string      `json:"policy,omitempty"`     // missing: all policies
	Keys       int         `json:"keys"`                 // that there are, and match
	Denied     int         `json:"denied"`               // of these, those of policies of the file whose next request is denied
	Unreadable int         `json:"unreadable,omitempty"` // of these, those that can't be read
	Buckets    []*bucket   `json:"buckets"`              // those that are worst off, the worst first
	Exceptions []exception `json:"exceptions"`           // overrides and blocks in Redis

	shown    int // buckets that would be shown if there were no bound
	withFile bool
	prefix   string
}

func (r *listResult) Text(w *show.Writer) {
	about := show.Some(int64(r.Keys), "key")
	if r.Policy != "" {
		about = show.Text(r.Policy) + ": " + about
	}
	if r.withFile {
		about += ", " + show.Count(int64(r.Denied)) + " denied now"
	}
	if r.Unreadable > 0 {
		about += ", " + show.Count(int64(r.Unreadable)) + " can't be read"
	}
	w.Line("%s", about)
	var rows [][]string
	for _, b := range r.Buckets {
		row := []string{b.Key, b.verdict()}
		if r.Policy == "" {
			row = append([]string{show.Text(b.Policy)}, row...)
		}
		rows = append(rows, row)
	}
	w.Table(2, nil, rows)
	if more := r.shown - len(r.Buckets); more > 0 {
		w.Line("  … and %s more (--most shows them)", show.Count(int64(more)))
	}
	if len(r.Exceptions) > 0 {
		w.Line("%s in Redis", show.Some(int64(len(r.Exceptions)), "exception"))
		textOfExceptions(w, r.Exceptions, r.Policy == "")
	}
	switch {
	case r.Keys == 0:
		w.Line("  If there should be some, check --prefix (it is %s) and the number of the database in the URL.", show.Text(r.prefix))
	case !r.withFile:
		w.Line("  %s", lacksFile)
	}
}

// listFlags are the flags of list.
type listFlags struct {
	deskFlags

	match  string
	most   int
	denied bool
}

func newListCommand() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list [POLICY]",
		Short: "List the clients of a policy, or of all, those that are worst off first",
		Long: `List the clients of a policy, or of all, those that are worst off first, and the
overrides and blocks that operators have set. It looks at all keys by SCAN, on
all masters of a Cluster. Without --policies it says what is stored.`,
		Example: `  ratelimit list api --policies policies.yaml --denied
  ratelimit list --match ann`,
		Args: cobra.MaximumNArgs(1),
	}
	f.define(cmd)
	cmd.Flags().StringVar(&f.match, "match", "", "only keys that have this `value` as a whole, such as a user, an address or a header's value")
	cmd.Flags().IntVar(&f.most, "most", 20, "how many keys to print")
	cmd.Flags().BoolVar(&f.denied, "denied", false, "leave out clients whose next request is allowed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.most < 1 {
			return misuse("--most must be at least 1")
		}
		if f.file == "" && f.denied {
			return misuse("--denied needs --policies FILE")
		}
		policy := ""
		if len(args) > 0 {
			policy = args[0]
		}
		d, err := f.open(cmd, policy)
		if err != nil {
			return err
		}
		defer d.close()
		r, failed, err := d.list(cmd.Context(), &f, policy)
		if err != nil {
			return fmt.Errorf("%w\n  %s were looked at, %s denied now", d.explain(err), show.Some(int64(r.Keys), "key"), show.Count(int64(r.Denied)))
		}
		return cmp.Or(printResult(cmd, r), missing(failed))
	}
	return cmd
}

// list looks at the keys of a policy, or of all with "". failed are the errors
// of servers whose keys are missing.
func (d *desk) list(ctx context.Context, f *listFlags, policy string) (r *listResult, failed []error, err error) {
	r = &listResult{Policy: policy, Buckets: []*bucket{}, Exceptions: []exception{}, withFile: f.file != "", prefix: f.prefix}
	var l listing
	err = pace.Each(ctx, f.rate, matching(d.keys(ctx, policy, &l), f.match), func(b redisstore.Bucket) (*bucket, error) {
		return d.look(ctx, b.Policy, b.Key, "", true)
	}, func(_ redisstore.Bucket, b *bucket, err error) error {
		r.Keys++
		switch {
		case errors.As(err, new(*store.StateError)):
			r.Unreadable++
			return nil
		case err == nil:
			r.add(b, f.denied, f.most)
		}
		return err
	})
	if err != nil {
		return r, nil, err
	}
	r.sort(f.most)
	if policy != "" {
		l.policies = []string{policy}
	}
	slices.Sort(l.policies)
	for _, name := range slices.Compact(l.policies) {
		list, bad, err := d.exceptions(ctx, name)
		for _, err := range []error{bad, err} {
			if err != nil {
				l.failed = append(l.failed, err)
			}
		}
		r.Exceptions = append(r.Exceptions, slices.DeleteFunc(list, func(e exception) bool {
			return f.match != "" && !keyparts.Of(e.key).Has(f.match)
		})...)
	}
	return r, l.failed, nil
}

// add adds a bucket, and keeps about as many as are printed.
func (r *listResult) add(b *bucket, denied bool, most int) {
	switch {
	case b.Allowed != nil && !*b.Allowed:
		r.Denied++
	case denied:
		return
	}
	r.shown++
	r.Buckets = append(r.Buckets, b)
	if len(r.Buckets) >= 2*most {
		r.sort(most)
	}
}

// sort keeps so many buckets that are worst off.
func (r *listResult) sort(most int) {
	slices.SortFunc(r.Buckets, (*bucket).worse)
	r.Buckets = r.Buckets[:min(len(r.Buckets), most)]
}

// missing returns an error for servers that failed, whose keys are missing.
func missing(failed []error) error {
	if len(failed) == 0 {
		return nil
	}
	texts := make([]string, len(failed))
	for i, err := range failed {
		texts[i] = "  " + err.Error()
	}
	slices.Sort(texts)
	return errors.New("not all could be read, and keys or exceptions are missing above:\n" + strings.Join(slices.Compact(texts), "\n"))
}
