package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/mistake"
)

// policies returns the policies of v, the value at p, by name. v is a list of
// them, or a mapping with the list.
func (d *document) policies(v any, p *place) map[string]core.Policy {
	want := "must be a file of policies: a list, or a mapping with the field policies"
	if fields, ok := v.(map[string]any); ok {
		if fields["limits"] != nil && fields["policies"] == nil {
			d.wrong(p.node, p, "", "", "is a single policy: make it a list, with \"- \" in front of its first line and two spaces in front of the others, or read it with policyfile.Parse")
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if name != "policies" {
				d.wrong(p.in(name).key, nil, "", fmt.Sprintf("%.80q", mistake.HiddenName(name)), "is not a field of a file of policies: its only field is policies")
			}
		}
		if v, ok = fields["policies"]; !ok {
			d.wrong(p.node, p, "policies", "", "is required")
			return nil
		}
		p, want = p.in("policies"), "must be a list of policies: begin each with - name:"
	}
	list, ok := v.([]any)
	switch {
	case !ok:
		value := shown(p.node)
		if _, isText := scalar(p.node); isText && p.above == nil {
			value = "text" // it can be another file, with a secret
		}
		d.wrong(p.node, p, "", value, want)
	case len(list) == 0:
		d.wrong(p.node, p, "", "[]", "is an empty list: at least one is required")
	}
	byName, first := make(map[string]core.Policy), make(map[string]string)
	for i := 0; i < len(list) && !d.full; i++ {
		item := p.item(i)
		policy := d.policy(list[i], item)
		fields, _ := list[i].(map[string]any)
		name, _ := fields["name"].(string)
		if before := first[name]; before != "" {
			its := item.in("name")
			d.wrong(its.node, its, "", shown(its.node), "is the name of "+before+" already")
		} else if name != "" {
			first[name] = item.path() + " (line " + strconv.Itoa(item.in("name").node.GetToken().Position.Line) + ")"
			byName[name] = policy
		}
	}
	return byName
}

// policy returns v, the value at p, as core reads a policy, and reports the
// mistakes that core finds.
func (d *document) policy(v any, p *place) (policy core.Policy) {
	d.round++
	if v == nil { // core would leave policy as it is
		v = []any{}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // what read returns always has a form in JSON
	var mistakes interface{ Unwrap() []error }
	if errors.As(policy.UnmarshalJSON(text.Bytes()), &mistakes) {
		for _, each := range mistakes.Unwrap() {
			d.report(each.(*core.ConfigError), p)
		}
	}
	return policy
}

// report reports a mistake that core has found in the policy at p.
func (d *document) report(m *core.ConfigError, p *place) {
	p, missing := p.find(m.Field)
	value, isString := m.Value.(string)
	n := p.node
	_, isScalar := n.(ast.ScalarNode)
	switch {
	case isString && (value != "" || strings.HasPrefix(m.Reason, "is not a field")):
		if field := p.inside[value]; missing == "" && field != nil { // an unknown field is at its key
			n = field.key
		}
		value = fmt.Sprintf("%.80q", mistake.HiddenValue(m, value))
	case isScalar && missing == "":
		value = shown(n)
	case !isString:
		value = fmt.Sprint(m.Value)
	}
	d.wrong(n, p, missing, value, inFile.Replace(m.Reason))
}
