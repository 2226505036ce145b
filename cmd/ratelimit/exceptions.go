package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/keyparts"
)

// following is how long processes may decide by the exceptions of before.
const following = `Services that call redisstore's FollowExceptions obey within 2 s;
  others take no notice.`

var blockCommand = cli.Command{
	Name: "block", Args: "POLICY [KEY]", Least: 1, Most: 2,
	About: "deny all requests of a client, without a deploy",
	Details: `It is written into Redis beside the buckets, and comes before all overrides. What the client has left stays. KEY is that of the command get.

  ratelimit block -policies policies.yaml api -ip 192.0.2.1 -for 1day

A client that has no bucket in Redis is blocked too: it may come later. The
answer says so, because the key may be misspelt.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var e exceptionFlags
		e.define(flags)
		return e.block
	},
}

var unblockCommand = cli.Command{
	Name: "unblock", Args: "POLICY [KEY]", Least: 1, Most: 2,
	About: "end a block",
	Details: `It ends also a block that Redis has lost, and that services still obey. The removal stays in Redis for a day.

It says what the next request sees. The exit code is 1 if that is still denied,
or if Redis has no block.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var e exceptionFlags
		e.live.define(flags)
		e.keys.define(flags)
		e.defineAuthor(flags)
		return e.unblock
	},
}

// exceptionFlags are the flags of commands about exceptions.
type exceptionFlags struct {
	live

	keys       keys
	lasts      time.Duration
	by, reason string
	remove     bool
}

func (e *exceptionFlags) define(flags *flag.FlagSet) {
	e.live.define(flags)
	e.keys.define(flags)
	flags.Func("for", "how `long` it holds, such as 2h, 90min or 7days; without it until it is removed", func(text string) error {
		l, err := core.ParseLimit("1/" + text) // reads what limits have behind the slash
		if err != nil || l.RefillInterval < time.Second || l.Mode != core.Continuous || l.Name != "" || l.Capacity != 1 {
			return errors.New("must be a time of 1 s to 36500 days, such as 2h, 90min or 7days")
		}
		e.lasts = l.RefillInterval
		return nil
	})
	e.defineAuthor(flags)
}

// defineAuthor defines the flags that say who makes a change, and why.
func (e *exceptionFlags) defineAuthor(flags *flag.FlagSet) {
	flags.StringVar(&e.reason, "reason", "", "why, for those who read it later: a line of `text`")
	flags.StringVar(&e.by, "by", "", "who does it: a `name` (default: the system's of who runs this)")
}

// author is who makes a change: the one who was given, or the system's user.
func (e *exceptionFlags) author() string { return cmp.Or(e.by, systemUser()) }

// systemUser is the system's name of who runs this, or "" if that is not known.
func systemUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// subject opens what a command needs about a key: args are behind the policy,
// and others are what follows the key.
func (e *exceptionFlags) subject(ctx context.Context, s cli.Streams, command string, args []string) (d *desk, limiter *core.Limiter, key string, others []string, err error) {
	others = args[1:]
	given := ""
	if len(e.keys.makers) == 0 && len(others) > 0 {
		given, others = others[0], others[1:]
	}
	d, limiter, err = e.openPolicy(ctx, s, command, args[0])
	if err != nil {
		return nil, nil, "", nil, err
	}
	if key, err = d.givenKey(ctx, args[0], given, &e.keys); err != nil {
		d.Close()
		return nil, nil, "", nil, err
	}
	return d, limiter, key, others, nil
}

func (e *exceptionFlags) block(ctx context.Context, s cli.Streams, args []string) error {
	d, limiter, key, _, err := e.subject(ctx, s, "block", args)
	if err != nil {
		return err
	}
	defer d.Close()
	block := redisstore.Exception{Key: key, For: e.lasts, By: e.author(), Reason: e.reason}
	if err := d.change(ctx, func(ctx context.Context) error { return d.Store.SetException(ctx, args[0], block) }); err != nil {
		return err
	}
	_ = show.Line(s.Out, args[0]+" "+d.text(key), "is blocked "+e.period()+".")
	return e.after(ctx, s, d, limiter, key, reportNone)
}

func (e *exceptionFlags) unblock(ctx context.Context, s cli.Streams, args []string) error {
	d, limiter, key, _, err := e.subject(ctx, s, "unblock", args)
	if err != nil {
		return err
	}
	defer d.Close()
	return e.end(ctx, s, d, limiter, key, false, reportAny)
}

// end ends an override of a key, or its block.
func (e *exceptionFlags) end(ctx context.Context, s cli.Streams, d *desk, limiter *core.Limiter, key string, override bool, report denials) error {
	policy, kind := limiter.Name(), map[bool]string{true: "override", false: "block"}[override]
	var was bool
	err := d.change(ctx, func(ctx context.Context) (err error) {
		was, err = d.Store.RemoveException(ctx, policy, redisstore.Removal{Key: key, Override: override, By: e.author(), Reason: e.reason})
		return err
	})
	if err != nil {
		return err
	}
	if was {
		_ = show.About(s.Out, policy+" "+d.text(key), "the "+kind+" has ended.")
		_, err = d.sees(ctx, s, limiter, key, report)
		_, _ = fmt.Fprintln(s.Out, "  "+following)
		return err
	}
	_ = show.Line(s.Out, policy+" "+d.text(key), "has no "+kind+" in Redis. If Redis has lost one, services end it too, within 2 s.")
	_, _ = d.sees(ctx, s, limiter, key, report)
	given := keyparts.Of(key)
	var nearest string
	var fewest int
	list, _ := d.Store.Exceptions(ctx, policy)
	for _, e := range list {
		other := keyparts.Of(e.Key)
		if n, near := given.Distance(other); e.Blocks() != override && (near || given.Within(other)) && (nearest == "" || n < fewest) {
			nearest, fewest = e.Key, n
		}
	}
	if nearest != "" {
		_, _ = fmt.Fprintf(s.Out, "  Did you mean %s?\n", d.text(nearest))
	}
	return cli.ErrFound
}

// period says how long an exception holds.
func (e *exceptionFlags) period() string {
	if e.lasts == 0 {
		return "until it is removed"
	}
	return "for " + show.Duration(e.lasts)
}

// after says what the next request of a key sees, and when what was written
// takes effect. If Redis has no bucket of the key, it says so, and which key
// may be meant: a block or an override of a client that comes later is right
// too. The error is that of sees.
func (e *exceptionFlags) after(ctx context.Context, s cli.Streams, d *desk, limiter *core.Limiter, key string, report denials) error {
	unused, err := d.sees(ctx, s, limiter, key, report)
	_, _ = fmt.Fprintln(s.Out, "  "+following)
	if unused {
		_ = show.Paragraph(s.Out, 2, "  Redis has no bucket of this key: it was never used, or not since it was full."+d.meant(ctx, limiter.Name(), key))
	}
	return err
}
