package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

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

Of a Cluster (-c) it names each node, also those that hang, are dead, or have no slots, and looks at all masters that answer. Through
Sentinel it says what each Sentinel and each replica does, and whether the master has a replica left.

  ratelimit doctor -policies policies.yaml redis://limiter@redis:6379

The exit code is 1 if there is a fault.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var l live
		l.define(flags)
		timeout := flags.Duration("store-timeout", 100*time.Millisecond, "the `timeout` of the service's stores (redisstore.WithTimeout)")
		asJSON := flags.Bool("json", false, "print a JSON object")
		return func(ctx context.Context, s cli.Streams, args []string) error {
			if l.Any = true; len(args) > 0 {
				l.URL(args[0])
			}
			found, err := l.examine(ctx, s, *timeout)
			if err = cmp.Or(err, ctx.Err()); err != nil { // what failed as ctx ended is no finding
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

// examine runs all checks. What fails is a finding, and the others go on.
func (l *live) examine(ctx context.Context, s cli.Streams, timeout time.Duration) (found doctor.Findings, err error) {
	d, err := l.open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	servers, err := d.servers(ctx, &found)
	if err != nil {
		return nil, d.Explain(err)
	}
	found = append(found, doctor.Servers(ctx, servers, timeout)...)
	if len(servers) == 0 || found.Replica() {
		return found, nil // of what limits do, nothing can be tried
	}
	var subjects []doctor.Subject
	for _, one := range servers {
		if at, ok := d.at(ctx, one); ok {
			subjects = append(subjects, at)
		}
	}
	rights := doctor.Rights(ctx, subjects)
	if found = append(found, rights...); rights.Faults() == len(subjects) {
		return found, nil
	}
	buckets, err := doctor.Buckets(ctx, d.Store, d.listed(ctx, ""), d.policies, l.rate, d.text)
	if err != nil {
		return nil, cli.After(d.Explain(err), "%s were looked at, after %d other findings, %d of them faults.", d.progress.keys, len(found), found.Faults())
	}
	return append(found, buckets...), nil
}

// servers returns the servers that have keys and answer. It adds what it finds
// about others.
func (d *desk) servers(ctx context.Context, found *doctor.Findings) ([]*redis.Client, error) {
	if _, several := d.Client.(*redis.ClusterClient); several {
		of, masters, err := doctor.Nodes(ctx, d.Link)
		*found = of
		return masters, err
	}
	of, master := doctor.Sentinels(ctx, d.Link)
	switch *found = of; {
	case d.Silent != nil:
		return nil, nil
	case master != "":
		return []*redis.Client{d.Node(master)}, nil
	}
	return []*redis.Client{d.Client.(*redis.Client)}, nil
}

// mostTags is how many hash tags at tries to find one of a server: more than
// there are slots.
const mostTags = 500_000

// at returns a store whose keys are at one server. ok is false if the prefix
// has no keys there.
func (d *desk) at(ctx context.Context, one *redis.Client) (at doctor.Subject, ok bool) {
	c, several := d.Client.(*redis.ClusterClient)
	if !several {
		return doctor.Subject{Client: one, Store: d.Store, Prefix: d.live.Prefix}, true
	}
	for i := range mostTags {
		prefix := fmt.Sprintf("%s{%d}:", d.live.Prefix, i)
		if master, err := c.MasterForKey(ctx, prefix); err == nil && master.Options().Addr == one.Options().Addr {
			return doctor.Subject{Client: one, Store: d.StoreAt(prefix), Prefix: prefix}, true
		}
	}
	return at, false
}
