package main

import (
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/replay"
	"github.com/tokenbucket-go/ratelimit/core"
)

// labelled is a policy to replay.
type labelled struct {
	core.Policy

	label string
}

// loadLabelled returns the policies to replay: those of files, all or by their
// names, then single limits.
func loadLabelled(in io.Reader, files, names, limits []string) (list []labelled, err error) {
	found := make(map[string]bool)
	var known []string
	for _, file := range files {
		policies, err := loadPolicies(in, file)
		if err != nil {
			if len(mistakesOf(err)) > 0 {
				return nil, cli.Misuse("%v", err)
			}
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(policies)) {
			if known = append(known, name); len(names) > 0 && !slices.Contains(names, name) {
				continue
			}
			found[name] = true
			label := name
			if len(files) > 1 {
				label = filepath.Base(file) + ": " + name
			}
			list = append(list, labelled{policies[name], label})
		}
	}
	for _, name := range names {
		if !found[name] {
			return nil, cli.Misuse("-policy %q is not in the files%s", name, nearest(name, known))
		}
	}
	for i, text := range limits {
		l, err := core.ParseLimit(text)
		if err != nil {
			return nil, cli.Misuse("-limit: %v", err)
		}
		policy, label := replay.Tried(i+1, l)
		list = append(list, labelled{policy, label})
	}
	return list, nil
}
