package policyfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core"
)

// policies returns by name what is a list of policies, or a mapping with one.
func (d *document) policies(v any) map[string]core.Policy {
	path, want := "", "must be a file of policies: a list, or a mapping with the field policies"
	if fields, ok := v.(map[string]any); ok {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if name != "policies" {
				d.wrong(d.keys["."+name], "", fmt.Sprintf("%.80q", name), "is not a field of a file of policies: its only field is policies")
			}
		}
		if v, ok = fields["policies"]; !ok {
			d.wrong(d.values[path], ".policies", "", "is required")
			return nil
		}
		path, want = ".policies", "must be a list of policies: begin each with - name:"
	}
	list, ok := v.([]any)
	switch n := d.values[path]; {
	case !ok:
		d.wrong(n, path, shown(n), want)
	case len(list) == 0:
		d.wrong(n, path, "[]", "is an empty list: at least one is required")
	}
	byName, first := make(map[string]core.Policy), make(map[string]string)
	for i := 0; i < len(list) && !d.full; i++ {
		item := fmt.Sprintf("%s[%d]", path, i)
		p := d.policy(list[i], item)
		fields, _ := list[i].(map[string]any)
		name, _ := fields["name"].(string)
		n := d.values[item+".name"]
		if before := first[name]; before != "" {
			d.wrong(n, item+".name", shown(n), "is the name of "+before+" already")
		} else if name != "" {
			first[name] = strings.TrimPrefix(item, ".") + " (line " + strconv.Itoa(n.GetToken().Position.Line) + ")"
			byName[name] = p
		}
	}
	return byName
}

// policy returns v, which is at a path, as core reads it, and reports the mistakes that core finds.
func (d *document) policy(v any, path string) (p core.Policy) {
	d.round++
	if v == nil { // core would leave p as it is
		v = []any{}
	}
	text, _ := json.Marshal(v) // what read returns always has a form in JSON
	var mistakes interface{ Unwrap() []error }
	if errors.As(p.UnmarshalJSON(text), &mistakes) {
		for _, each := range mistakes.Unwrap() {
			d.place(each.(*core.ConfigError), path)
		}
	}
	return p
}

// place reports a mistake that core has found in the policy at a path.
func (d *document) place(m *core.ConfigError, path string) {
	field := inFile.Replace(m.Field)
	if of, ok := strings.CutPrefix(m.Field, overridesField); ok { // the key is as it is
		end := strings.LastIndex(of, "]") + 1
		if end == 0 { // the mistake is in the list
			end = len(of)
		}
		field = "overrides." + of[:end] + inFile.Replace(of[end:])
	}
	path = strings.TrimSuffix(path+"."+field, ".")
	value, isString := m.Value.(string)
	n := cmp.Or(d.values[path], d.values[path[:max(0, strings.LastIndex(path, "."))]]) // what is missing has no node
	_, isScalar := d.values[path].(ast.ScalarNode)
	switch {
	case isString && (value != "" || strings.HasPrefix(m.Reason, "is not a field")):
		n = cmp.Or(d.keys[path+"."+value], n) // an unknown field is at its key
		value = fmt.Sprintf("%.80q", value)
	case isScalar:
		value = shown(n)
	case !isString:
		value = fmt.Sprint(m.Value)
	}
	d.wrong(n, path, value, inFile.Replace(m.Reason))
}

// overridesField begins the fields of overrides.
const overridesField = "Policy.Overrides."

// inFile gives the fields of core.Policy and core.Limit the names that files use.
var inFile = strings.NewReplacer("RateLimit-Policy", "RateLimit-Policy", "Policy.", "", "Policy", "", "Limits", "limits", "Name", "name",
	"Capacity", "capacity", "RefillRate", "refill_rate", "RefillInterval", "refill_interval", "Mode", "mode", "Shadow", "shadow",
	"OnFailure", "on_failure", "LocalShare", "local_share", "Headers", "headers", "Overrides", "overrides", "Unit", "unit", "Location", "location", "Anchor", "anchor")
