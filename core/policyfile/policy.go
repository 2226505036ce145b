package policyfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core"
)

// policies returns by name what is a list of policies, or a mapping with one.
func (d *document) policies(v any) map[string]core.Policy {
	path, want := "", "must be a file of policies: a list, or a mapping with the field policies"
	if fields, ok := v.(map[string]any); ok {
		for name := range fields {
			if name != "policies" {
				d.wrong(d.keys[name], "", strconv.Quote(name), "is not a field of a file of policies: the fields are policies")
			}
		}
		if v, ok = fields["policies"]; !ok {
			d.wrong(d.values[path], "policies", "", "is required")
			return nil
		}
		path, want = "policies", "must be a list of policies"
	}
	list, ok := v.([]any)
	switch n := d.values[path]; {
	case !ok && !d.wrongs[n]:
		d.wrong(n, path, shown(n), want)
	case len(list) == 0:
		d.wrong(n, path, "", "is an empty list: at least one is required")
	}
	byName, first := make(map[string]core.Policy), make(map[string]string)
	for i := 0; i < len(list) && !d.full; i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		p := d.policy(list[i], at)
		n := d.values[at+".name"]
		fields, _ := list[i].(map[string]any)
		name, isString := fields["name"].(string)
		switch before := first[name]; {
		case !isString || d.wrongs[n]:
		case before != "":
			d.wrong(n, at+".name", shown(n), "is the name of "+before+" already")
		default:
			first[name] = at + " (line " + strconv.Itoa(n.GetToken().Position.Line) + ")"
			byName[name] = p
		}
	}
	return byName
}

// policy returns v, which is at a path, as core reads it, and reports the mistakes that core finds.
func (d *document) policy(v any, path string) (p core.Policy) {
	if v == nil { // core would leave p as it is
		v = []any{}
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = p.UnmarshalJSON(text)
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return p
	}
	var places []ast.Node // marked at last, for one node can have several mistakes
	for _, err := range joined.Unwrap() {
		var m *core.ConfigError
		errors.As(err, &m)
		n, field, value := d.place(m, path)
		if !d.wrongs[n] {
			d.wrong(n, field, value, inFile.Replace(m.Reason))
			delete(d.wrongs, n)
			places = append(places, n)
		}
	}
	for _, n := range places {
		d.wrongs[n] = true
	}
	return p
}

// place returns what is wrong in the file by a mistake in the policy at a path: the node, the field and its value.
func (d *document) place(m *core.ConfigError, path string) (n ast.Node, field, value string) {
	field = join(path, inFile.Replace(m.Field))
	value, isString := m.Value.(string)
	if key := d.keys[join(field, value)]; key != nil && isString && value != "" { // of a field that is unknown
		return key, field, strconv.Quote(clip(value))
	}
	n = d.values[field]
	switch n.(type) {
	case nil: // a field of a limit that is a string, or a field that is not given
		n = d.values[field[:max(0, strings.LastIndex(field, "."))]]
	case *ast.MappingNode, *ast.SequenceNode:
	default:
		if !isString || value == "" {
			return n, field, shown(n)
		}
	}
	switch {
	case !isString:
		value = fmt.Sprint(m.Value)
	case value != "":
		value = strconv.Quote(clip(value))
	}
	return n, field, value
}

// inFile gives the fields of core.Policy and core.Limit the names that files use.
var inFile = strings.NewReplacer("RateLimit-Policy", "RateLimit-Policy", "Policy.", "", "Policy", "", "Limits", "limits", "Name", "name",
	"Capacity", "capacity", "RefillRate", "refill_rate", "RefillInterval", "refill_interval", "Mode", "mode", "Shadow", "shadow",
	"OnFailure", "on_failure", "LocalShare", "local_share", "Headers", "headers")
