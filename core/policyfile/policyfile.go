// Package policyfile reads policies from YAML and JSON, and reports every
// mistake with its line and column.
//
//	name: search             # required
//	limits:                  # required: strings as core.ParseLimit reads them, or mappings
//	  - 10/s burst 30
//	  - name: daily
//	    capacity: 10_000     # without it, refill_rate, rounded up
//	    refill_rate: 10_000  # required
//	    refill_interval: day # required: a unit, or 30s, 5 min, 1h30m
//	    mode: aligned        # continuous (the default), stepped, aligned, or concurrent: only with capacity and max_hold
//	  - tokens: 100_000/min hold 10min # a limit of another unit
//	  - 5 at once hold 2min  # slots
//	overrides:               # limits of single keys
//	  x-api-key:k-123:
//	    - 60/s
//	blocked: ["ip:192.0.2.1"] # keys that are denied
//	on_failure: open         # local (the default), open or closed
//	local_share: 0.25        # above 0, at most 1 (the default)
//	headers: [legacy, draft8]  # default, none, or one or more of legacy, draft8 and draft6
//	shadow: false
//
// The fields are those of [core.Policy] and [core.Limit]. Anchors, aliases and
// merge keys work. Unknown and repeated fields, tags, complex keys ("? key"),
// tabs in text without quotes, and a second document are mistakes.
//
// A file is UTF-8 of at most 256 KiB and 20,000 YAML tokens, which is about 700
// policies. Brackets nest at most 8 deep; colons and dashes outside them are in
// the first 100 columns. A key has at most 256 bytes. Aliases expand a file to
// at most 2 MiB, and a small one to less.
//
// See [docs/policies.md].
//
// [docs/policies.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/policies.md
package policyfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Parse reads one policy. [core.NewLimiter] accepts the policy. If there are
// mistakes, the error joins an [Error] for each.
func Parse(data []byte) (core.Policy, error) {
	return load(bytes.NewReader(data), "", (*document).policy)
}

// Load reads a list of policies, or a mapping with the list under policies.
// Each is as [Parse] reads it. There must be at least one, and no two of the
// same name. Load returns the policies by name. If there are mistakes it
// returns none, and the error joins an [Error] for each.
//
// A name that is not in the map yields the zero Policy, which [core.NewLimiter]
// refuses.
func Load(r io.Reader) (map[string]core.Policy, error) { return load(r, "", (*document).policies) }

// LoadFile is [Load] of a file. Every mistake has its path.
func LoadFile(path string) (map[string]core.Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: policies: %w (RL201)", err)
	}
	defer func() { _ = f.Close() }()
	return load(f, path, (*document).policies)
}

// load returns the result of by for the content of a file, or all its mistakes.
func load[T any](r io.Reader, file string, by func(*document, any, *place) T) (v T, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+4)) // with a byte order mark, and one too much
	if err != nil {
		return v, fmt.Errorf("ratelimit: policies: %w (RL201)", err)
	}
	d := document{file: file, most: min(maxSize, leastSize+perByte*len(data)), anchors: make(map[string]ast.Node), wrongs: make(map[ast.Node]int)}
	if root, e := parse(data); e != nil {
		e.File, d.errs = file, append(d.errs, e)
	} else {
		root, d.round = d.resolve(root), 1
		top := &place{}
		v = by(&d, d.read(root, top), top)
	}
	if len(d.errs) == 0 {
		return v, nil
	}
	slices.SortStableFunc(d.errs[:min(len(d.errs), maxErrors)], func(x, y error) int { // that there are more stays last
		a, b := x.(*Error), y.(*Error)
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return *new(T), errors.Join(d.errs...)
}
