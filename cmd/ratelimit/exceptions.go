package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

// following is how long processes may decide by the exceptions of before.
const following = `Services that call redisstore's FollowExceptions obey within 2 s;
  others take no notice.`

var blockCommand = cli.Command{
	Name: "block", Args: "POLICY [KEY]", Least: 1, Most: 2,
	About: "deny all requests of a client, without a deploy",
	Details: `It is written into Redis beside the buckets, and comes before all overrides. What the client has left stays. KEY is that of the command get.

  ratelimit block -policies policies.yaml api -ip 192.0.2.1 -for 1day
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
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var e exceptionFlags
		e.live.define(flags)
		e.keys.define(flags)
		return e.unblock
	},
}

var exceptionsCommand = cli.Command{
	Name: "exceptions", Args: "POLICY", Least: 1, Most: 1,
	About: "list the overrides and blocks that are in Redis",
	New: func(flags *flag.FlagSet) cli.Run {
		var e exceptionFlags
		e.live.define(flags)
		flags.BoolVar(&e.asJSON, "json", false, "print a JSON object")
		return e.list
	},
}

// exceptionFlags are the flags of commands about exceptions.
type exceptionFlags struct {
	live

	keys           keys
	lasts          time.Duration
	by, reason     string
	remove, asJSON bool
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
	flags.StringVar(&e.reason, "reason", "", "why, for those who read it later: a line of `text`")
	flags.StringVar(&e.by, "by", "", "who sets it: a `name` (default: the system's of who runs this)")
}

// author is who sets an exception: the one who was given, or the system's user, or "" if that is not known.
func (e *exceptionFlags) author() string {
	if u, err := user.Current(); e.by == "" && err == nil {
		return u.Username
	}
	return e.by
}

// about is what is known of an exception beside what it does: whose it is, how long it holds and why.
func about(x redisstore.Exception) string {
	text := show.Text(cmp.Or(x.By, oncall.Operator))
	if x.For > 0 {
		text += " until " + show.Instant(time.Now().Add(x.For))
	}
	if x.Reason != "" {
		text += ": " + strconv.Quote(x.Reason)
	}
	return text
}

// subject opens what a command needs about a key: args are behind the policy, and others are what follows the key.
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
	d, _, key, _, err := e.subject(ctx, s, "block", args)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Store.SetException(ctx, args[0], redisstore.Exception{Key: key, For: e.lasts, By: e.author(), Reason: e.reason}); err != nil {
		return d.Explain(err)
	}
	_, _ = fmt.Fprintf(s.Out, "%s %s is blocked %s.\n", args[0], d.text(key), e.period())
	e.after(ctx, s, d, args[0], key)
	return nil
}

func (e *exceptionFlags) unblock(ctx context.Context, s cli.Streams, args []string) error {
	d, limiter, key, _, err := e.subject(ctx, s, "unblock", args)
	if err != nil {
		return err
	}
	defer d.Close()
	err = e.end(ctx, s, d, key, args[0], "block", d.Store.Unblock)
	rules := oncall.RulesOf(limiter)
	if (err == nil || errors.Is(err, cli.ErrFound)) && rules.Listed(key) && rules.Owner(key) != oncall.Operator {
		_, _ = fmt.Fprintf(s.Out, "  %s blocks it: remove it there.\n", d.live.file)
	}
	return err
}

// end ends an exception of a key.
func (e *exceptionFlags) end(ctx context.Context, s cli.Streams, d *desk, key, policy, kind string, end func(ctx context.Context, policy, key string) (bool, error)) error {
	was, err := end(ctx, policy, key)
	if err != nil {
		return d.Explain(err)
	}
	if was {
		_, _ = fmt.Fprintf(s.Out, "%s %s: the %s has ended.\n  %s\n", policy, d.text(key), kind, following)
		return nil
	}
	_, _ = fmt.Fprintf(s.Out, "%s %s has no %s in Redis. If Redis has lost one, services end it too, within 2 s.\n", policy, d.text(key), kind)
	var known []string
	list, _ := d.Store.Exceptions(ctx, policy)
	for _, e := range list {
		if e.Blocks() == (kind == "block") {
			known = append(known, e.Key)
		}
	}
	if nearest := cli.Nearest(key, known); nearest != "" {
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

// after says when what was written takes effect, and which key was meant if Redis does not have this one.
func (e *exceptionFlags) after(ctx context.Context, s cli.Streams, d *desk, policy, key string) {
	_, _ = fmt.Fprintln(s.Out, "  "+following)
	var nearest []string
	for _, other := range d.nearestKeys(ctx, policy, key) {
		if other == key {
			return
		}
		nearest = append(nearest, d.text(other))
	}
	if len(nearest) > 0 {
		_, _ = fmt.Fprintf(s.Out, "  Redis has no bucket of this key now. Did you mean %s?\n", strings.Join(nearest, ", or "))
	}
}

// inWords says what an exception does, and when it ends.
func inWords(x redisstore.Exception) (what, ends string) {
	what, ends = "blocked", "until it is removed"
	if !x.Blocks() {
		var texts []string
		for _, l := range x.Limits {
			texts = append(texts, l.String())
		}
		what = strings.Join(texts, ", ")
	}
	if x.For > 0 {
		ends = "ends in " + show.Duration(x.For)
	}
	if x.By+x.Reason != "" {
		x.For = 0
		ends += ", by " + about(x)
	}
	return what, ends
}

// exceptionList is what exceptions found.
type exceptionList struct {
	output.Head

	Exceptions []exceptionRow `json:"exceptions"` // in the order of their keys
}

// exceptionRow is an override or a block.
type exceptionRow struct {
	Key     string       `json:"key"`                       // whose exception it is
	Blocked bool         `json:"blocked,omitempty"`         // it is a block
	Limits  []core.Limit `json:"limits,omitempty"`          // of an override: the limits that it replaces or multiplies
	Left    float64      `json:"ends_in_seconds,omitempty"` // when it ends; missing: when it is removed
	By      string       `json:"by,omitempty"`              // who set it
	Reason  string       `json:"reason,omitempty"`          // why
}

func (e *exceptionFlags) list(ctx context.Context, s cli.Streams, args []string) error {
	d, err := e.open(ctx, s)
	if err != nil {
		return err
	}
	defer d.Close()
	if len(d.policies) > 0 {
		if _, err := d.limiterOf(ctx, args[0]); err != nil {
			return err
		}
	}
	list, bad := d.Store.Exceptions(ctx, args[0])
	if bad != nil && len(list) == 0 {
		return d.Explain(bad)
	}
	rows := make([]exceptionRow, len(list))
	for i, x := range list {
		rows[i] = exceptionRow{d.text(x.Key), x.Blocks(), x.Limits, x.For.Seconds(), x.By, x.Reason}
	}
	if e.asJSON {
		if err := output.Write(s.Out, &exceptionList{Exceptions: rows}); err != nil {
			return err
		}
		return d.Explain(bad)
	}
	var t show.Table
	for i, x := range list {
		what, ends := inWords(x)
		t.Row(rows[i].Key, what, ends)
	}
	if err := t.Write(s.Out); err != nil {
		return err
	}
	if len(list) == 0 {
		_, _ = fmt.Fprintf(s.Out, "%s has no exceptions in Redis.\n", args[0])
	}
	return d.Explain(bad)
}
