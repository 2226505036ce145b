package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
	"github.com/tokenbucket-go/ratelimit/internal/pace"
)

const aboutCustomers = `
CUSTOMER is a key, such as ip:192.0.2.1, or a part of keys, such as the value of a header. Or the flags of the command key say who it is.
Several are several names of one customer. Found are keys that are the CUSTOMER or have it as a whole part, also in joined keys and by
the hash of a long part or key. A joined key of more than 128 bytes is one hash: only the same -join finds it.
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
  ratelimit forget -dry-run k-123
  ratelimit forget k-123
`,
	New: func(flags *flag.FlagSet) cli.Run {
		f := findFlags{command: "forget"}
		f.live.define(flags)
		f.keys.define(flags)
		flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be deleted, and delete nothing")
		flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
		return f.run
	},
}

// findFlags are the flags of the commands find and forget.
type findFlags struct {
	live

	command        string
	keys           keys
	dryRun, asJSON bool
}

// foundKey is a key of a customer.
type foundKey struct {
	Policy string        `json:"policy"`          // whose key it is
	Key    string        `json:"key"`             // as other commands take it
	State  *state.Bucket `json:"state,omitempty"` // of the key, if the policy is known: see get
	Error  string        `json:"error,omitempty"` // why the state can't be read
	bucket redisstore.Bucket
}

// foundException is an override or a block of a customer.
type foundException struct {
	Policy string `json:"policy"` // whose exception it is
	Key    string `json:"key"`    // as other commands take it
	Kind   string `json:"kind"`   // override or block
	stored string
}

// finding is what find or forget found.
type finding struct {
	output.Head

	Looked  int        `json:"looked_at"` // how many keys were looked at
	Hashes  int        `json:"hashes"`    // how many of the others are hashes of keys above 128 bytes
	Deleted int        `json:"deleted"`   // how many keys forget deleted
	Found   []foundKey `json:"found"`     // the customer's keys

	Exceptions []foundException `json:"exceptions"` // the customer's overrides and blocks in Redis
}

func (f *findFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	customers, err := f.keys.made()
	if err != nil {
		return err
	}
	if customers = append(customers, args...); len(customers) == 0 || slices.Contains(customers, "") {
		return cli.Misuse("%s needs a customer: a key such as ip:192.0.2.1, a part of keys, or a flag such as -ip 192.0.2.1", f.command)
	}
	d, err := f.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	found, err := d.find(ctx, customers)
	if err != nil {
		deleted := map[string]string{"forget": ", and nothing was deleted"}[f.command]
		return cli.After(d.Explain(err), "%s looked at, with %s of the customer%s.", show.Some(int64(found.Looked), "key"), show.Count(int64(len(found.Found))), deleted)
	}
	if f.command == "forget" && !f.dryRun {
		err := pace.Each(ctx, f.rate, withoutErrors(found.Found), func(k foundKey) (foundKey, error) {
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
		if err := d.endExceptions(ctx, found.Exceptions); err != nil {
			return cli.After(d.Explain(err), "%s deleted, and not all of %s.", show.Some(int64(found.Deleted), "key"), show.Some(int64(len(found.Exceptions)), "exception"))
		}
	} else if f.command == "find" {
		d.look(ctx, found.Found)
	}
	if f.asJSON {
		return output.Write(s.Out, found)
	}
	return f.write(s, found)
}

// find looks at all keys.
func (d *desk) find(ctx context.Context, customers []string) (*finding, error) {
	found, seen := &finding{Found: []foundKey{}}, make(map[redisstore.Bucket]bool)
	for b, err := range d.buckets(ctx, "") {
		if err != nil {
			return found, err
		}
		found.Looked++
		switch {
		case slices.ContainsFunc(customers, func(c string) bool { return d.names(c, b.Key) }):
			if !seen[b] { // SCAN may return a key twice
				found.Found = append(found.Found, foundKey{Policy: b.Policy, Key: d.text(b.Key), bucket: b})
			}
			seen[b] = true
		case strings.HasPrefix(b.Key, "sha256:"):
			found.Hashes++
		}
	}
	if err := d.findExceptions(ctx, customers, found); err != nil {
		return found, err
	}
	slices.SortFunc(found.Found, func(a, b foundKey) int {
		return strings.Compare(a.Policy+"\x00"+a.bucket.Key, b.Policy+"\x00"+b.bucket.Key)
	})
	return found, nil
}

// findExceptions looks at all exceptions.
func (d *desk) findExceptions(ctx context.Context, customers []string, found *finding) error {
	found.Exceptions = []foundException{}
	policies, err := d.Store.ExceptionPolicies(ctx, d.live.rate, d.progress.looked)
	d.progress.clear()
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
			if slices.ContainsFunc(customers, func(c string) bool { return d.names(c, e.Key) }) {
				found.Exceptions = append(found.Exceptions, foundException{policy, d.text(e.Key), kind, e.Key})
			}
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

// names reports whether a customer's name is that of a key.
func (d *desk) names(customer, key string) bool {
	switch {
	case partOf(customer, key), customer == key && strings.HasPrefix(key, "sha256:"):
		return true
	}
	return d.secret != "" && oncall.IsHex(customer, oncall.LogDigits) && show.Hash([]byte(d.secret), key) == customer
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
				rules = oncall.RulesOf(limiter)
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
		k.State.Key = k.Key
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
	what := show.Some(int64(len(found.Found)), "key")
	if n := len(found.Exceptions); n > 0 {
		what += " and " + show.Some(int64(n), "exception")
	}
	_, _ = fmt.Fprintf(s.Out, "%s %s, of %s%s\n", what, does, show.Count(int64(found.Looked)), end)
	if found.Looked+len(found.Exceptions) == 0 {
		_, _ = io.WriteString(s.Out, f.noKeys(""))
	}
	var t show.Table
	for _, k := range found.Found {
		row := []string{"  " + show.Text(k.Policy), k.Key}
		if k.State != nil {
			row = append(row, k.State.Says)
		} else if k.Error != "" {
			row = append(row, k.Error)
		}
		t.Row(row...)
	}
	for _, e := range found.Exceptions {
		t.Row("  "+show.Text(e.Policy), e.Key, "an exception: "+e.Kind)
	}
	if err := t.Write(s.Out); err != nil {
		return err
	}
	if found.Hashes > 0 {
		_, _ = fmt.Fprintf(s.Out, "  Of the others, %s of a key above 128 bytes, which only that key finds: see -join.\n", isHash(found.Hashes))
	}
	if f.command == "forget" && !f.dryRun && len(found.Exceptions) > 0 {
		_, _ = fmt.Fprintln(s.Out, "  The removals of exceptions, with their keys, stay in Redis for a day, so that no service brings them back.")
	}
	if found.Deleted > 0 {
		_, _ = fmt.Fprintln(s.Out, "  "+lingering+"\n  A new request makes a new key. Logs, metrics and replicas' dumps have their own copies.")
	}
	return nil
}

func isHash(n int) string {
	if n == 1 {
		return "1 is the hash"
	}
	return show.Count(int64(n)) + " are the hash"
}
