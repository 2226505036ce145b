package main

import (
	"context"
	"flag"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/doctor"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
)

var doctorCommand = cli.Command{
	Name: "doctor", Args: "[URL]", Most: 1,
	About: "find what is wrong with Redis, and say what to do",
	Details: `It looks at the rights of the user, at eviction and memory, the version, the round trip beside the store's timeout, the clock, cached
scripts, keys that can't be read, and, with -policies, limits that were last used under another definition: two services with one policy
name, or a deployment. It writes keys of the policy ratelimit-doctor, and deletes them.

  ratelimit doctor -policies policies.yaml redis://limiter@redis:6379

The exit code is 1 if there is a fault.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var l live
		l.define(flags)
		timeout := flags.Duration("store-timeout", 100*time.Millisecond, "the `timeout` of the service's stores (redisstore.WithTimeout)")
		asJSON := flags.Bool("json", false, "print a JSON object")
		return func(ctx context.Context, s cli.Streams, args []string) error {
			if l.Replica = true; len(args) > 0 {
				l.URL(args[0])
			}
			found, err := l.examine(ctx, s, *timeout)
			if err != nil {
				return err
			}
			if *asJSON {
				err = output.Write(s.Out, &diagnosis{Findings: found})
			} else {
				err = found.Write(s.Out)
			}
			if err == nil && found.Faults() > 0 {
				return cli.ErrFound
			}
			return err
		}
	},
}

// diagnosis is what doctor found.
type diagnosis struct {
	output.Head

	Findings doctor.Findings `json:"findings"` // in the order of the checks
}

// examine runs all checks.
func (l *live) examine(ctx context.Context, s cli.Streams, timeout time.Duration) (doctor.Findings, error) {
	d, err := l.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	found, err := doctor.Servers(ctx, d.Client, timeout)
	if err != nil {
		return nil, d.Explain(err)
	}
	if found.Replica() {
		return found, nil // of what limits do, nothing can be tried
	}
	user, err := d.Client.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		user = "this user"
	} else {
		user = "user " + user
	}
	rights := doctor.Rights(ctx, d.Store, user)
	if found = append(found, rights...); rights.Faults() > 0 {
		return found, nil
	}
	buckets, err := doctor.Buckets(ctx, d.Store, d.buckets(ctx, ""), d.policies, l.rate, d.text)
	if err != nil {
		return nil, cli.After(d.Explain(err), "%s were looked at, after %d other findings, %d of them faults.", d.progress.keys, len(found), found.Faults())
	}
	return append(found, buckets...), nil
}
