package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/output"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/state"
	"github.com/tokenbucket-go/ratelimit/core"
)

var getCommand = cli.Command{
	Name: "get", Args: "POLICY [KEY]", Least: 1, Most: 2,
	About: "say whether a client is limited right now, and why",
	Details: `KEY is a key as policies have it, or sha256:… as Redis has long ones. With ` + show.SecretVariable + ` it may be the 12 hex digits that stand
in the log. Or the flags of the command key say who the client is:

  ratelimit get -policies policies.yaml api ip:192.0.2.1
  ratelimit get -policies policies.yaml api -header x-api-key=abc -h redis -watch

It takes nothing. Of a key that Redis does not have, it prints the nearest that exist. The exit code is 1 if the request is denied, or if
that is not known because the service has other limits than the file.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var g getFlags
		g.define(flags)
		g.asked.define(flags)
		g.keys.define(flags)
		flags.StringVar(&g.plan, "plan", "", "decide by the limits of this `plan` of the policy (default: those that the key was last decided by)")
		flags.BoolVar(&g.watch, "watch", false, "show it again each second, until interrupted")
		flags.BoolVar(&g.asJSON, "json", false, "print a JSON object; with -watch, one a line")
		return g.run
	},
}

// getFlags are the flags of the command get.
type getFlags struct {
	live

	asked         asked
	keys          keys
	plan          string
	watch, asJSON bool
}

// gotten is what get found.
type gotten struct {
	output.Head
	*state.Bucket

	Shadow  bool     `json:"shadow"`            // the policy is in shadow mode, so it denies nobody
	Nearest []string `json:"nearest,omitempty"` // the nearest keys that exist, if Redis does not have this one
}

// asked are the flags that say what the next request takes.
type asked struct{ units core.Units } // nil: one of each unit that the limits of a key count

func (a *asked) define(flags *flag.FlagSet) {
	flags.Func("cost", "what the next request takes: a `number` of requests, or UNIT=NUMBER; can be repeated (default 1)", func(text string) error {
		unit, number, ok := strings.Cut(text, "=")
		if !ok {
			unit, number = core.Requests, text
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 {
			return errors.New("must be a number such as 5, or of a unit, such as tokens=1000")
		}
		if a.units == nil {
			a.units = core.Units{}
		}
		a.units[unit] = n
		return nil
	})
}

func (g *getFlags) run(ctx context.Context, s cli.Streams, args []string) error {
	d, limiter, err := g.openPolicy(ctx, s, "get", args[0])
	if err != nil {
		return err
	}
	defer d.Close()
	key, err := d.givenKey(ctx, args[0], arg(args, 1), &g.keys)
	if err != nil {
		return err
	}
	if !g.watch {
		allowed, err := g.show(ctx, s.Out, d, limiter, key)
		if err == nil && !allowed {
			return cli.ErrFound
		}
		return err
	}
	return watch(ctx, s.Out, g.asJSON, func() error {
		_ = d.Store.ReadExceptions(ctx, limiter) // openPolicy has warned
		_, err := g.show(ctx, s.Out, d, limiter, key)
		return err
	})
}

// arg returns the i-th argument, or "".
func arg(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

// show prints the state of a bucket once. It reports whether the request would
// pass.
func (g *getFlags) show(ctx context.Context, w io.Writer, d *desk, limiter *core.Limiter, key string) (allowed bool, err error) {
	b, err := d.next(ctx, limiter, key, g.plan, g.asked.units)
	if err != nil {
		return false, err
	}
	var nearest []string
	if b.Unused && !g.watch {
		for _, key := range d.nearestKeys(ctx, limiter.Name(), key) {
			nearest = append(nearest, d.text(key))
		}
	}
	b.Key, b.Bytes = d.text(key), d.keys.Bytes(key)
	shadow := d.policies[limiter.Name()].Shadow
	if g.asJSON {
		return b.Allowed, printing(g.watch)(w, &gotten{Bucket: b, Shadow: shadow, Nearest: nearest})
	}
	if err := b.Write(w, b.Key); err != nil {
		return false, err
	}
	if shadow {
		_, _ = fmt.Fprintln(w, "  "+inShadow)
	}
	if len(nearest) > 0 {
		_ = show.Paragraph(w, 2, "  Redis has no such key. Did you mean "+strings.Join(nearest, ", or ")+"?")
	}
	return b.Allowed, nil
}
