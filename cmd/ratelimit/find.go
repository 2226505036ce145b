package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
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
It needs -yes if the keys may be of more than one customer:

  - the name stands for two things, such as the header x-api-key and the user
  - the keys differ in another value that says who sends requests, such as an
    address or another user
  - a key has no such value: path:/report is everybody's
  - a key can be read in two ways: the k-1 of k-1:ip%3A192.0.2.1 may be a
    customer, or a kind of your own

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
		deleted := map[string]string{"forget": ", and nothing was deleted"}[f.command]
		return cli.After(d.Explain(err), "%s looked at, with %s of the customer%s.", show.Some(int64(found.Looked), "key"), show.Count(int64(len(found.Found))), deleted)
	}
	if f.command == "forget" && !f.dryRun {
		if found.Several != "" && !f.yes {
			return cli.Misuse("forget would delete %s that may be of more than one customer: %s. See -dry-run, and add -yes to do it", found.count(), found.Several)
		}
		if err := d.forget(ctx, found); err != nil {
			return err
		}
	} else if f.command == "find" {
		if err := d.look(ctx, found.Found); err != nil {
			return cli.After(err, "%s found, of %s.", found.count(), show.Count(int64(found.Looked)))
		}
	}
	if f.asJSON {
		err = output.Write(s.Out, found)
	} else {
		err = f.write(s, found)
	}
	means := map[string]string{"find": "and keys are missing above:", "forget": "and keys of the customer may be left: forget it again."}[f.command]
	if err = cmp.Or(err, d.incomplete(means)); err == nil && len(found.Denied) > 0 {
		return cli.ErrFound
	}
	return err
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
	var t show.Table
	for _, k := range found.Found {
		row := []string{"  " + show.Text(k.Policy), k.Key}
		if k.State != nil {
			row = append(row, k.State.Line())
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
	if found.Several != "" && found.Deleted == 0 {
		_ = show.Paragraph(s.Out, 4, "  They may be of more than one customer: "+found.Several+". forget asks for -yes.")
	}
	f.writeChanges(s.Out, found.Changes)
	if found.Hashes > 0 {
		_ = show.Paragraph(s.Out, 4, "  Of the others, "+isHash(found.Hashes)+" of a key above 128 bytes, which only that key finds: see -join.")
	}
	if found.Kinds > 0 {
		_ = show.Paragraph(s.Out, 4, "  Of the others, "+has(found.Kinds)+" a name as the first part, which says what a key of your own names: give a whole key to find it.")
	}
	if f.command == "forget" && !f.dryRun && len(found.Exceptions) > 0 {
		_ = show.Paragraph(s.Out, 4, "  The removals of exceptions, with their keys, stay in Redis for a day, so that no service brings them back.")
	}
	for _, k := range found.Denied {
		_ = show.About(s.Out, "  The next request of "+show.Text(k.Policy)+" "+k.Key, k.State.Says+".")
	}
	if found.Deleted > 0 {
		_, _ = fmt.Fprintln(s.Out, "  "+lingering)
		_ = show.Paragraph(s.Out, 4, "  A new request makes a new key. Logs, metrics and replicas' dumps have their own copies.")
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
