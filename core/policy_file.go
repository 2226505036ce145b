package core

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// ParsePolicy reads one policy from YAML or JSON:
//
//	name: search             # required
//	limits:                  # required: strings as ParseLimit reads them, or mappings
//	  - 10/s burst 30
//	  - name: daily
//	    capacity: 10_000     # without it, refill_rate
//	    refill_rate: 10_000  # required
//	    refill_interval: day # required: a unit, or 30s, 5 min, 1h30m
//	    mode: aligned        # continuous (the default), stepped or aligned
//	on_failure: open         # local (the default), open or closed
//	local_share: 0.25        # above 0, at most 1 (the default)
//	headers: [legacy, ietf]  # default, none, or one or more of legacy, ietf and draft6
//	shadow: false
//
// The fields are those of [Policy] and [Limit]. Numbers are written as in ParseLimit. YAML is that of version
// 1.1; anchors, aliases and merge keys work. Unknown and repeated fields are mistakes, and so is a second
// document. At most 1 MiB is read.
//
// The policy is one that [NewLimiter] accepts, or the error joins a [PolicyFileError] for every mistake.
func ParsePolicy(data []byte) (Policy, error) {
	d := &document{}
	var p Policy
	if root := d.parse(data); root != nil {
		p, _ = d.policy(root, "")
	}
	if err := d.all(); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// LoadPolicies reads policies from YAML or JSON: a list of them, or a mapping with the list under
// policies, each as [ParsePolicy] has it, at least one, no two of one name.
//
// The policies are by name, which is how limiters are made from them and given new limits. A name that is
// not there yields the zero Policy, which [NewLimiter] refuses. It reads all or nothing: the error joins a
// [PolicyFileError] for every mistake.
func LoadPolicies(r io.Reader) (map[string]Policy, error) {
	return loadPolicies(r, "")
}

// LoadPoliciesFile is [LoadPolicies] of a file, whose name every mistake tells.
func LoadPoliciesFile(path string) (map[string]Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ratelimit: policies: %w", err)
	}
	defer f.Close()
	return loadPolicies(f, path)
}

func loadPolicies(r io.Reader, file string) (map[string]Policy, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPolicyFile+1))
	if err != nil {
		return nil, fmt.Errorf("ratelimit: policies: %w", err)
	}
	d := &document{file: file}
	policies := make(map[string]Policy)
	if root := d.parse(data); root != nil {
		d.policies(root, policies)
	}
	if err := d.all(); err != nil {
		return nil, err
	}
	return policies, nil
}

// policies adds the policies of a file to byName.
func (d *document) policies(root *yaml.Node, byName map[string]Policy) {
	list, path := root, ""
	if root.Kind != yaml.SequenceNode {
		fields, ok := d.mapping(root, "", "a file of policies", []string{"policies"})
		if !ok {
			return
		}
		value, found := fields["policies"]
		if !found {
			d.wrong(root, "policies", "", "is required: a list of policies")
			return
		}
		list, path = value, "policies"
	}
	first := make(map[string]string)
	for i, n := range d.list(list, path, "policies") {
		if d.full {
			return
		}
		element := path + "[" + strconv.Itoa(i) + "]"
		p, name := d.policy(n, element)
		if name == nil {
			continue
		}
		if before, taken := first[p.Name]; taken {
			d.wrong(name, element+".name", shown(name), "is the name of "+before+" already")
			continue
		}
		first[p.Name] = element + " (line " + strconv.Itoa(name.Line) + ")"
		byName[p.Name] = p
	}
}
