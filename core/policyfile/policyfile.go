// Package policyfile reads policies from YAML and JSON, and reports mistakes
// with their lines.
//
//	policies:
//	  - name: search           # required
//	    limits:                # required: as core.ParseLimit reads them
//	      - 10/s burst 30
//	      - 10_000/day aligned name daily
//	      - 100_000 tokens/min hold 10min
//	      - 5 at once hold 2min # slots
//	    plans:                 # limits by the name of a plan
//	      pro: [100/s burst 300, 100_000/day aligned name daily]
//	    overrides:             # limits of single keys
//	      x-api-key:k-123: [60/s]
//	    blocked: ["ip:192.0.2.1"] # keys that are denied
//	    on_failure: open       # local (the default), open or closed
//	    local_share: 0.25      # above 0, at most 1 (the default)
//	    headers: legacy, draft8 # default, none, or one or more of legacy, draft8 and draft6
//	    shadow: false
//
// The fields are those of [core.Policy]. The list may also stand alone. Unknown
// and repeated fields are mistakes, and so are anchors, aliases, tags, complex
// keys ("? key") and a second document.
//
// A file is UTF-8 of at most 256 KiB and 20,000 YAML tokens, which is about 700
// policies, nested at most 10 deep. A key has at most 256 bytes.
//
// See [docs/limits.md].
//
// [docs/limits.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/limits.md
package policyfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Load reads a list of policies, or a mapping with the list under policies.
// There must be at least one, and no two of the same name. Load returns the
// policies by name; [core.NewLimiter] accepts each.
//
// If there are mistakes it returns no policy, and the error joins an [Error] for
// each. It reports all limits that can't be read, and of the policies that can
// be read all that is wrong with what they mean. Of other mistakes, such as an
// unknown field, it reports the first of each policy, and of mistakes in the
// syntax of YAML the first of the file.
//
// A name that is not in the map yields the zero Policy, which [core.NewLimiter]
// refuses.
func Load(r io.Reader) (map[string]core.Policy, error) { return load(r, "") }

// LoadFile is [Load] of a file. Every mistake has its path.
func LoadFile(path string) (map[string]core.Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: policies: %w (RL201)", err)
	}
	defer func() { _ = f.Close() }()
	return load(f, path)
}

// maxErrors keeps the report readable.
const maxErrors = 100

func load(r io.Reader, file string) (map[string]core.Policy, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+4)) // with a byte order mark, and one too much
	if err != nil {
		return nil, fmt.Errorf("ratelimit: policies: %w (RL201)", err)
	}
	d := &document{}
	policies := guarded(d, func() map[string]core.Policy { return d.read(data) })
	if len(d.errs) == 0 {
		return policies, nil
	}
	slices.SortStableFunc(d.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if len(d.errs) > maxErrors {
		d.errs = append(d.errs[:maxErrors], &Error{Line: d.errs[maxErrors].Line, Reason: "too many mistakes: only the first 100 are reported", code: "RL204"})
	}
	errs := make([]error, len(d.errs))
	for i, e := range d.errs {
		e.File, errs[i] = file, e
	}
	guarded(d, func() any { d.show(d.errs); return nil })
	return nil, errors.Join(errs...)
}

// guarded returns the result of f, or notes that the YAML library panicked, which
// no input is known to make it do.
func guarded[T any](d *document, f func() T) (result T) {
	defer func() {
		if recover() != nil {
			d.errs = append(d.errs, &Error{Line: 1, Reason: "invalid YAML: the YAML library failed", code: "RL202"})
		}
	}()
	return f()
}

// read returns the policies of a file by name, and collects its mistakes.
func (d *document) read(data []byte) map[string]core.Policy {
	root := d.parse(data)
	list, path := root, ""
	if top, ok := root.(*ast.MappingNode); ok {
		if list, path = d.policies(top), "policies"; list == nil {
			return nil
		}
	}
	items, ok := list.(*ast.SequenceNode)
	switch {
	case root == nil:
		return nil
	case !ok:
		d.wrong(list, path, "must be a list of policies: begin each with - name:", "RL208")
		return nil
	case len(items.Values) == 0:
		d.wrong(list, path, "is an empty list: at least one policy is required", "RL208")
	}
	policies, first := make(map[string]core.Policy), make(map[string]string)
	for i, item := range items.Values {
		at := path + "[" + strconv.Itoa(i) + "]"
		p, ok := d.policy(item, at)
		if before := first[p.Name]; ok && before != "" {
			d.wrong(entry(item, "name"), at+".name", "is the name of "+before+" already: give each policy a name of its own", "RL115")
		}
		policies[p.Name], first[p.Name] = p, at
	}
	return policies
}

// policies returns the list in a mapping whose only field it is, or nil.
func (d *document) policies(top *ast.MappingNode) (list ast.Node) {
	for _, e := range top.Values {
		switch t := e.Key.GetToken(); {
		case t.Value != "policies":
			d.unknown(t, "", "a file of policies has the field policies alone")
		case list != nil:
			d.wrongAt(t, "", "is given a second time", "RL207")
		default:
			list = e.Value
		}
	}
	if list == nil && len(d.errs) == 0 {
		d.wrong(top, "policies", "is required", "RL208")
	}
	return list
}
