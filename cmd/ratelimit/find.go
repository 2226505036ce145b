package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

const aboutCustomers = `
CUSTOMER is a key, such as ip:192.0.2.1, or a value that says who sends
requests: of a header field, a cookie, an address. Or the flags of the command
key say who it is. Several are several names of one customer.

Found are the key, keys that it is joined into, and keys that have the value as
a whole. A name is never a part of a value, the kind of a key (header, ip) or
the name of a field. An address is also that of its network, as in
ip:2001:db8::/64. What requests ask for, as of path, route, method and global,
is found by its key: path:/report. A key of your own is read as core.JoinKey
makes it, kind and values; without a colon it is a value. A joined key of more
than 128 bytes is one hash: only the same -join finds it.
`

var findCommand = cli.Command{
	Name: "find", Args: "CUSTOMER…", Most: -1,
	About: "list the keys of a customer in all policies",
	Details: `With -policies, it prints the state of each.
` + aboutCustomers + `
  ratelimit find k-123
  ratelimit find -policies policies.yaml -ip 192.0.2.1 -header x-api-key=k-123
`,
	New: func(flags *flag.FlagSet) cli.Run {
		f := findFlags{command: "find"}
		f.live.define(flags)
		f.keys.define(flags)
		flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
		return f.run
	},
}

var forgetCommand = cli.Command{
	Name: "forget", Args: "CUSTOMER…", Most: -1,
	About: "delete the keys of a customer in all policies, as requests to delete data ask",
	Details: `All limits of the customer are full again, and what was reserved or held is gone. So are overrides and blocks
in Redis; their removals, with their keys, stay there for a day, so that no service brings them back. Try it with -dry-run first.
` + aboutCustomers + `
It needs -yes for keys that may be of more than one customer. They are of one if
the name is the value of one thing alone, such as the header x-api-key; if they
don't differ in another value that says who sends requests, such as an address;
if each has such a value; and if a first part that is no kind of the scheme and
stands in front of one, as in k-1:ip%3A192.0.2.1, is in none of them: it may be a
customer or a kind of your own.

  ratelimit forget -dry-run k-123
  ratelimit forget k-123

With -policies, the exit code is 1 if requests of the customer are still denied.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		f := findFlags{command: "forget"}
		f.live.define(flags)
		f.keys.define(flags)
		flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be deleted, and delete nothing")
		flags.BoolVar(&f.yes, "yes", false, "do it, also to keys of more than one customer")
		flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
		return f.run
	},
}

// findFlags are the flags of the commands find and forget.
type findFlags struct {
	live

	command             string
	keys                keys
	dryRun, yes, asJSON bool
}

// foundKey is a key of a customer.
type foundKey struct {
	Policy string        `json:"policy"`
	Key    string        `json:"key"`
	Bytes  []byte        `json:"key_base64,omitempty"` // if Key is quoted
	State  *state.Bucket `json:"state,omitempty"`
	Error  string        `json:"error,omitempty"`
	bucket redisstore.Bucket
}

// foundException is an override or a block of a customer.
type foundException struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
	Bytes  []byte `json:"key_base64,omitempty"` // if Key is quoted
	Kind   string `json:"kind"`                 // override or block
	stored string
}

// finding is what find or forget found.
type finding struct {
	Looked  int        `json:"looked_at"`
	Hashes  int        `json:"hashes"`                    // keys that are or join hashes, and were not found
	Kinds   int        `json:"kinds,omitempty"`           // keys whose first part is a name, and says what they name
	Several string     `json:"several_because,omitempty"` // why the found may be of more than one customer
	Deleted int        `json:"deleted"`
	Found   []foundKey `json:"found"`

	Exceptions []foundException `json:"exceptions"`
	Denied     []foundKey       `json:"still_denied,omitempty"` // after forget: the policy blocks them
}

// count is how many keys and exceptions there are.
func (f *finding) count() string {
	what := show.Some(int64(len(f.Found)), "key")
	if n := len(f.Exceptions); n > 0 {
		what += " and " + show.Some(int64(n), "exception")
	}
	return what
}

func (f *findFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	customers, err := f.keys.made()
	if err != nil {
		return err
	}
	for _, arg := range args {
		customer, err := takenKey(arg)
		if err != nil {
			return err
		}
		customers = append(customers, customer)
	}
	if len(customers) == 0 {
		return cli.Misuse("%s needs a customer: a key such as ip:192.0.2.1, a value of keys, or a flag such as -ip 192.0.2.1", f.command)
	}
	d, err := f.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	found, err := d.find(ctx, customers)
	if err != nil {
		return d.Explain(err)
	}
	if f.command == "forget" && !f.dryRun {
		if found.Several != "" && !f.yes {
			return cli.Misuse("forget deletes %s of perhaps more than one customer: %s. See -dry-run, and add -yes to do it", found.count(), found.Several)
		}
		if err := d.forget(ctx, found); err != nil {
			return err
		}
	} else if f.command == "find" {
		d.look(ctx, found.Found)
	}
	if f.asJSON {
		err = writeJSON(s.Out, found)
	} else {
		err = f.write(s, found)
	}
	if err == nil && len(found.Denied) > 0 {
		return cli.ErrFound
	}
	return err
}

// find looks at all keys.
func (d *desk) find(ctx context.Context, customers []string) (*finding, error) {
	found, seen := &finding{Found: []foundKey{}}, make(map[redisstore.Bucket]bool)
	search := keyparts.NewSearch(d.logged(), customers...)
	for b, err := range d.Store.Buckets(ctx, "", d.live.rate) {
		if err != nil {
			return nil, err
		}
		found.Looked++
		if search.Finds(b.Key) && !seen[b] { // SCAN may return a key twice
			seen[b] = true
			found.Found = append(found.Found, foundKey{Policy: b.Policy, Key: d.text(b.Key), Bytes: d.keys.Bytes(b.Key), bucket: b})
		}
	}
	found.Hashes, found.Kinds = search.Hashed, search.Kinds
	if err := d.findExceptions(ctx, search, found); err != nil {
		return nil, err
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

// findExceptions looks at all exceptions.
func (d *desk) findExceptions(ctx context.Context, search *keyparts.Search, found *finding) error {
	found.Exceptions = []foundException{}
	policies, err := d.Store.ExceptionPolicies(ctx, d.live.rate)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		list, err := d.Store.Exceptions(ctx, policy)
		if err != nil && list == nil {
			return err
		} else if err != nil {
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
	}
	return nil
}

// forget deletes what was found, and notes which requests are denied afterwards.
func (d *desk) forget(ctx context.Context, found *finding) error {
	for _, k := range found.Found {
		if err := d.Store.Reset(ctx, k.bucket.Policy, k.bucket.Key); err != nil {
			return errors.Join(d.Explain(err), fmt.Errorf("%s deleted, and %d are left", show.Some(int64(found.Deleted), "key"), len(found.Found)-found.Deleted))
		}
		found.Deleted++
	}
	if err := d.endExceptions(ctx, found.Exceptions); err != nil {
		return d.Explain(err)
	}
	keys := slices.Clone(found.Found)
	for _, e := range found.Exceptions {
		if bucket := (redisstore.Bucket{Policy: e.Policy, Key: e.stored}); !slices.ContainsFunc(keys, func(k foundKey) bool { return k.bucket == bucket }) {
			keys = append(keys, foundKey{Policy: e.Policy, Key: e.Key, Bytes: e.Bytes, bucket: bucket})
		}
	}
	d.look(ctx, keys)
	for _, k := range keys {
		if k.State != nil && !k.State.Allowed && !d.policies[k.Policy].Shadow {
			found.Denied = append(found.Denied, k)
		}
	}
	return nil
}

// endExceptions removes exceptions.
func (d *desk) endExceptions(ctx context.Context, list []foundException) error {
	for _, e := range list {
		end := d.Store.EndOverride
		if e.Kind == "block" {
			end = d.Store.Unblock
		}
		if _, err := end(ctx, e.Policy, e.stored); err != nil {
			return err
		}
	}
	return nil
}

// look adds the states of keys whose policies are known.
func (d *desk) look(ctx context.Context, list []foundKey) {
	byPolicy := make(map[string]*oncall.Rules)
	for i := range list {
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
}

func (f *findFlags) write(s cli.Streams, found *finding) error {
	does := map[string]string{"find": "found", "forget": "deleted"}[f.command]
	if f.dryRun {
		does = "would be deleted (-dry-run)"
	}
	end := ":"
	if len(found.Found)+len(found.Exceptions) == 0 {
		end = ""
	}
	_, _ = fmt.Fprintf(s.Out, "%s %s, of %s%s\n", found.count(), does, show.Count(int64(found.Looked)), end)
	if found.Looked+len(found.Exceptions) == 0 {
		_, _ = io.WriteString(s.Out, f.noKeys(""))
	}
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, k := range found.Found {
		says := k.Error
		if k.State != nil {
			says = k.State.Says
		}
		if says != "" {
			says = "\t" + says
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s%s\n", show.Text(k.Policy), k.Key, says)
	}
	for _, e := range found.Exceptions {
		_, _ = fmt.Fprintf(t, "  %s\t%s\tan exception: %s\n", show.Text(e.Policy), e.Key, e.Kind)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if found.Several != "" && found.Deleted == 0 {
		_, _ = fmt.Fprintf(s.Out, "  They may be of more than one customer: %s. forget asks for -yes.\n", found.Several)
	}
	if found.Hashes > 0 {
		_, _ = fmt.Fprintf(s.Out, "  Of the others, %s of a key above 128 bytes, which only that key finds: see -join.\n", isHash(found.Hashes))
	}
	if found.Kinds > 0 {
		_, _ = fmt.Fprintf(s.Out, "  Of the others, %s a name as the first part, which says what a key of your own names: give a whole key to find it.\n", has(found.Kinds))
	}
	if f.command == "forget" && !f.dryRun && len(found.Exceptions) > 0 {
		_, _ = fmt.Fprintln(s.Out, "  The removals of exceptions, with their keys, stay in Redis for a day, so that no service brings them back.")
	}
	for _, k := range found.Denied {
		_, _ = fmt.Fprintf(s.Out, "  The next request of %s %s: %s.\n", show.Text(k.Policy), k.Key, k.State.Says)
	}
	if found.Deleted > 0 {
		_, _ = fmt.Fprintln(s.Out, "  "+lingering+"\n  A new request makes a new key. Logs, metrics and replicas' dumps have their own copies.")
	}
	return nil
}

func isHash(n int) string {
	if n == 1 {
		return "1 is or has the hash"
	}
	return show.Count(int64(n)) + " are or have the hash"
}

func has(n int) string {
	if n == 1 {
		return "1 has"
	}
	return show.Count(int64(n)) + " have"
}
