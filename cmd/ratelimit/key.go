package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/internal/oncall"
)

var keyCommand = cli.Command{
	Name:  "key",
	About: "print the keys that the adapters make of a client",
	Details: `Each flag is one extractor with the value of the client, and prints its key on a line. They can be repeated:

  ratelimit key -ip 192.0.2.1                      # ByIP
  ratelimit key -header x-api-key=abc              # ByHeader("X-Api-Key")
  ratelimit key -value user=bob                    # ByContextValue("user")
  ratelimit key -join -ip 192.0.2.1 -path /search  # Join(ByIP(), ByPath())

A key that can't be pasted as it is, such as one with a tab or a quote, is
printed as a Go string in double quotes. Commands take it so, in single quotes,
and without these in a policy file, if it is UTF-8.
`,
	New: func(flags *flag.FlagSet) cli.Run {
		var k keys
		k.define(flags)
		return func(_ context.Context, s cli.Streams, _ []string) error { return k.print(s) }
	},
}

// keys are the flags of the command key.
type keys struct {
	makers     []func() (string, error) // in the order of the command line
	join       bool
	ipv6Prefix int
}

func (k *keys) define(flags *flag.FlagSet) {
	flags.BoolVar(&k.join, "join", false, "print one key, joined of all in their order, as Join makes it")
	flags.IntVar(&k.ipv6Prefix, "ipv6-prefix", 64, "the leading `bits` of an IPv6 address that are one client, as core.IPv6Prefix sets them")
	k.one(flags, "ip", "the key of an `address`, as ByIP makes it", func(address string) (string, error) {
		return keyof.IP(address, core.IPv6Prefix(k.ipv6Prefix))
	})
	k.one(flags, "method", "the key of a `method`", keyof.Method)
	k.one(flags, "path", "the key of a `path`", keyof.Path)
	k.one(flags, "route", "the key of a route's `pattern`", keyof.Route)
	k.one(flags, "global", "the key of Global(`name`)", keyof.Global)
	k.named(flags, "header", "the key of a header field, as `name=value`")
	k.named(flags, "cookie", "the key of a cookie, as `name=value`")
	k.named(flags, "query", "the key of a query parameter, as `name=value`")
	k.named(flags, "param", "the key of a path parameter, as `name=value`")
	k.named(flags, "value", "the key of a value that middleware stored, as `name=value`")
}

// one defines a flag for an extractor without a name.
func (k *keys) one(flags *flag.FlagSet, name, usage string, of func(string) (string, error)) {
	flags.Func(name, usage, func(value string) error {
		k.makers = append(k.makers, func() (string, error) { return of(value) })
		return nil
	})
}

// named defines a flag for an extractor with a name.
func (k *keys) named(flags *flag.FlagSet, name, usage string) {
	flags.Func(name, usage, func(pair string) error {
		field, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("write NAME=VALUE, such as -%s x=abc", name)
		}
		k.makers = append(k.makers, func() (string, error) { return replay.Named[name](field, value) })
		return nil
	})
}

// made returns the keys: one if they are joined.
func (k *keys) made() (list []string, err error) {
	for _, maker := range k.makers {
		key, err := maker()
		if err != nil {
			return nil, cli.Misuse("%v", err)
		}
		list = append(list, key)
	}
	if k.join && len(list) > 0 {
		list = []string{keyof.Join(list...)}
	}
	return list, nil
}

func (k *keys) print(s cli.Streams) error {
	if len(k.makers) == 0 {
		return cli.Misuse("key needs a client, such as -ip 192.0.2.1 (see ratelimit help key)")
	}
	made, err := k.made()
	if err != nil {
		return err
	}
	for _, key := range made {
		_, _ = fmt.Fprintln(s.Out, oncall.ShownKey(key))
	}
	return nil
}

var hashCommand = cli.Command{
	Name: "hash", Args: "KEY…", Least: 1, Most: -1,
	About: "print keys as the log has them",
	Details: `The log of a limiter has the first 12 hex digits of a key's HMAC-SHA256, by the secret that the service gives core.WithKeySecret.
Set the environment variable ` + show.SecretVariable + ` to that secret. Without core.WithKeySecret each process has a random one,
and nobody can compute its hashes.

  ` + show.SecretVariable + `=… ratelimit hash $(ratelimit key -ip 192.0.2.1)
`,
	New: func(*flag.FlagSet) cli.Run {
		return func(_ context.Context, s cli.Streams, args []string) error {
			secret := s.Env(show.SecretVariable)
			if _, err := show.ParseKeys("hash", secret); secret == "" || err != nil {
				return cli.Misuse("%v", show.ErrSecret)
			}
			for _, arg := range args {
				key, err := takenKey(arg)
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintln(s.Out, show.Hash([]byte(secret), key))
			}
			return nil
		}
	},
}
