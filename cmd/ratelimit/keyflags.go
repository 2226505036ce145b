package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
	"github.com/tokenbucket-go/ratelimit/core/store"
)

// keyFlags are flags that say who a client is, each as one extractor of the
// adapters makes its key. Several are joined in their order, as Join does.
type keyFlags struct {
	makers     []func() (string, error)
	ipv6Prefix int
}

func (f *keyFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	one := func(name, usage string, of func(value string) (string, error)) {
		flags.Func(name, usage, func(value string) error {
			f.makers = append(f.makers, func() (string, error) { return of(value) })
			return nil
		})
	}
	named := func(name, usage string, of func(name, value string) (string, error)) {
		flags.Func(name, usage, func(pair string) error {
			field, value, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("write NAME=VALUE, such as --%s x=abc", name)
			}
			f.makers = append(f.makers, func() (string, error) { return of(field, value) })
			return nil
		})
	}
	one("ip", "the client's `address`, as ByIP", func(address string) (string, error) {
		return keyof.IP(address, core.IPv6Prefix(f.ipv6Prefix))
	})
	flags.IntVar(&f.ipv6Prefix, "ipv6-prefix", 64, "the leading `bits` of an IPv6 address that are one client, as core.IPv6Prefix")
	named("header", "a header field, as ByHeader: `name=value`", keyof.Header)
	named("cookie", "a cookie, as ByCookie: `name=value`", keyof.Cookie)
	named("query", "a query parameter, as ByQuery: `name=value`", keyof.Query)
	named("param", "a path parameter, as ByParam: `name=value`", keyof.Param)
	named("value", "a value that middleware stored, as ByContextValue: `name=value`", keyof.Value)
	one("path", "a `path`, as ByPath", keyof.Path)
	one("route", "a route's `pattern`, as ByRoute", keyof.Route)
	one("method", "a `method`, as ByMethod", keyof.Method)
	one("global", "the `name` of Global", keyof.Global)
}

// key returns the key that the flags or the first of args give, as stores have
// it, and the rest of args.
func (f *keyFlags) key(args []string) (key string, rest []string, err error) {
	if len(f.makers) > 0 {
		made := make([]string, len(f.makers))
		for i, maker := range f.makers {
			if made[i], err = maker(); err != nil {
				return "", nil, misuse("%w", err)
			}
		}
		if len(made) > 1 {
			made = []string{keyof.Join(made...)}
		}
		return store.Key(made[0]), args, nil
	}
	if len(args) == 0 {
		return "", nil, misuse("name a key, such as ip:192.0.2.1, or a client, such as --ip 192.0.2.1")
	}
	if key, err = show.GivenKey(args[0]); err != nil {
		return "", nil, misuse("%s: %w", args[0], err)
	}
	if key == "" {
		return "", nil, misuse("a key has at least one byte")
	}
	return show.StoredKey(key), args[1:], nil
}

// only is key of a command that takes nothing else.
func (f *keyFlags) only(args []string) (string, error) {
	key, rest, err := f.key(args)
	if err == nil && len(rest) > 0 {
		err = misuse("name the client by a key or by flags, and not by both")
	}
	return key, err
}
