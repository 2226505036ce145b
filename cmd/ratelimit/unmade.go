//go:build ignore

package main

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/keyof"
)

// unmade returns what is doubtful about the keys of a policy's overrides and
// blocks, one sentence for each that no extractor makes.
func unmade(p core.Policy) (doubts []string) {
	for _, of := range []struct {
		what string
		keys []string
	}{{"override", slices.Sorted(maps.Keys(p.Overrides))}, {"block", slices.Sorted(slices.Values(p.Blocked))}} {
		for _, key := range of.keys {
			if hint := asExtractors(key); hint != key {
				doubt := p.Name + ", " + of.what + " of " + show.Key(key) + ": no extractor makes this key"
				if hint != "" {
					doubt += ": did you mean " + show.Key(hint) + "?"
				} else {
					doubt += ", only a key function of your own"
				}
				doubts = append(doubts, doubt)
			}
		}
	}
	return doubts
}

// misspelt returns which names of limits that one plan alone has are like one
// of the policy's that it lacks, in sentences.
func misspelt(p core.Policy) (doubts []string) {
	has := func(limits []core.Limit, name string) bool {
		return slices.ContainsFunc(limits, func(l core.Limit) bool { return l.Name == name })
	}
	for _, plan := range slices.Sorted(maps.Keys(p.Plans)) {
		var lacking []string
		for _, l := range p.Limits {
			if l.Name != "" && !has(p.Plans[plan], l.Name) {
				lacking = append(lacking, l.Name)
			}
		}
		for _, l := range p.Plans[plan] {
			if meant := cli.Nearest(l.Name, lacking); meant != "" && l.Name != "" && !has(p.Limits, l.Name) {
				doubts = append(doubts, fmt.Sprintf("%s, plan %s: no other limit counts with %s: did you mean %s?", p.Name, show.Text(plan), show.Text(l.Name), show.Text(meant)))
			}
		}
	}
	return doubts
}

// asExtractors returns key as the adapters' extractors make it of the same
// client, or "" if they make nothing like it. A key with a first part of its
// own, such as user:bob, is one of JoinKey's.
func asExtractors(key string) string {
	if _, err := netip.ParseAddr(key); err == nil {
		return made(keyof.IP(key))
	}
	kind, rest, ok := strings.Cut(key, ":")
	if !ok {
		return ""
	}
	name, value, named := strings.Cut(rest, ":")
	if kind == "ip" {
		if prefix, err := netip.ParsePrefix(rest); err == nil { // of IPv6
			return made(keyof.IP(prefix.Addr().String(), core.IPv6Prefix(prefix.Bits())))
		}
		return made(keyof.IP(rest))
	}
	if of := replay.Named[kind]; of != nil && named && !strings.HasPrefix(value, "%sha256=") {
		return made(of(plain(name), plain(value)))
	}
	return key
}

// plain is a part of a joined key as it was.
func plain(part string) string {
	if text, err := url.PathUnescape(part); err == nil {
		return text
	}
	return part
}

// made is a key, or "" with an error.
func made(key string, err error) string {
	if err != nil {
		return ""
	}
	return key
}
