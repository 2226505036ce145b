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
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replica"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var exceptionsCommand = cli.Command{
	Name: "exceptions", Args: "[POLICY] [URL…]", Most: -1,
	About: "list overrides and blocks, and say which replicas obey them",
	Details: `It lists those that are in Redis, of a policy or of all. Services that call
redisstore's FollowExceptions obey them. With -replicas, each URL is that of the
adminlimit handler of one process, as top takes them: it says which of them have
followed what is in Redis, waits for those that have not, and names what they
lack.
Who asks is in ` + replica.UserVariable + ` or ` + replica.HeaderVariable + `, as for top.

  ratelimit exceptions
  ratelimit exceptions api -replicas http://app-{1,2}:8080/admin/limits

The exit code is 1 if a replica has not followed, and 3 if one can't be read.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var f inForceFlags
		f.live.define(flags)
		flags.BoolVar(&f.ask, "replicas", false, "ask the replicas at each URL what they obey")
		f.replicas.DefineAs(flags, "replica-")
		flags.DurationVar(&f.wait, "wait", 3*time.Second, "how `long` -replicas waits for those that have not followed")
		flags.BoolVar(&f.asJSON, "json", false, "print a JSON object")
		return f.run
	},
}

// inForceFlags are the flags of the command exceptions.
type inForceFlags struct {
	live

	replicas    replica.Flags
	ask, asJSON bool
	wait        time.Duration
}

func (f *inForceFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	policy := ""
	if len(args) > 0 && !strings.Contains(args[0], "://") {
		policy, args = args[0], args[1:]
	}
	var replicas []*replica.Replica
	switch {
	case f.ask && len(args) == 0:
		return cli.Misuse("-replicas needs URL…, each that of the adminlimit handler of one process, such as http://app-1:8080/admin/limits")
	case !f.ask && len(args) > 0:
		return cli.Misuse("exceptions takes one POLICY, or none for all; to ask replicas at URLs what they obey, add -replicas")
	case f.ask:
		var err error
		if replicas, err = f.replicas.Replicas(args, s.Env); err != nil {
			return err
		}
	}
	d, err := f.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	policies := []string{policy}
	if policy == "" {
		if policies, err = d.exceptionPolicies(ctx); err != nil {
			return cli.After(d.Explain(err), "%s were looked at.", d.progress.keys)
		}
	} else if err := d.known(policy); err != nil {
		return err
	}
	if f.ask {
		return f.compare(ctx, s, d, policies, policy == "", replicas)
	}
	return f.list(ctx, s, d, policies, policy == "")
}

// known returns a mistake if the policies are known and have another name.
func (d *desk) known(policy string) error {
	if _, ok := d.policies[policy]; ok || len(d.policies) == 0 {
		return nil
	}
	return cli.Misuse("policy %s is not in %s%s", show.Text(policy), d.live.file, nearest(policy, slices.Sorted(maps.Keys(d.policies))))
}

// kept returns what Redis has of a policy's exceptions. bad says what can't be
// read.
func (d *desk) kept(ctx context.Context, policy string) (x *oncall.Exceptions, bad, err error) {
	x = &oncall.Exceptions{List: []oncall.Exception{}}
	if x.Version, err = d.Store.ExceptionsVersion(ctx, policy); err != nil {
		return nil, nil, err
	}
	list, bad := d.Store.Exceptions(ctx, policy)
	if list == nil && bad != nil {
		return nil, nil, bad
	}
	for _, e := range list {
		x.List = append(x.List, exceptionOf(e))
		if e.Blocks() {
			x.Blocks++
		} else {
			x.Overrides++
		}
	}
	return x, bad, nil
}

// exceptionOf is an exception in Redis as replicas show theirs.
func exceptionOf(e redisstore.Exception) oncall.Exception {
	x := oncall.Exception{Key: oncall.ShownKey(e.Key), Blocked: e.Blocks(), EndsIn: e.For.Seconds(), By: e.By, Reason: e.Reason}
	if !e.Blocks() {
		x.Limits = oncall.Texts(e.Limits)
	}
	return x
}

// exceptionList is what Redis has.
type exceptionList struct {
	output.Head

	Exceptions []exceptionRow `json:"exceptions"` // in the order of their policies and keys
}

// exceptionRow is an override or a block.
type exceptionRow struct {
	Policy string `json:"policy"` // whose exception it is
	oncall.Exception
}

// list prints what is in Redis.
func (f *inForceFlags) list(ctx context.Context, s cli.Streams, d *desk, policies []string, all bool) error {
	rows, unread := []exceptionRow{}, []error{}
	for _, policy := range policies {
		list, bad := d.Store.Exceptions(ctx, policy)
		if !all || bad == nil || !d.missed.note(bad) {
			unread = append(unread, bad)
		}
		for _, e := range list {
			x := exceptionOf(e)
			x.Key, x.Bytes = d.text(e.Key), d.keys.Bytes(e.Key)
			rows = append(rows, exceptionRow{policy, x})
		}
	}
	bad := errors.Join(d.Explain(errors.Join(unread...)), d.incomplete("and exceptions are missing above:"))
	if f.asJSON {
		return errors.Join(output.Write(s.Out, &exceptionList{Exceptions: rows}), bad)
	}
	var t show.Table
	for _, r := range rows {
		row := []string{r.Key, r.Does(), r.EndsBy()}
		if all {
			row = append([]string{show.Text(r.Policy)}, row...)
		}
		t.Row(row...)
	}
	if err := t.Write(s.Out); err != nil {
		return err
	}
	switch {
	case len(rows) > 0 || bad != nil:
	case all:
		_, _ = io.WriteString(s.Out, "There are no exceptions in Redis.\n"+f.noKeys(""))
	default:
		_, _ = fmt.Fprintf(s.Out, "%s has no exceptions in Redis.\n", show.Text(policies[0]))
	}
	return bad
}
