package policyfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/internal/quantity"
)

var (
	modes    = []word[core.Mode]{{"continuous", core.Continuous}, {"stepped", core.Stepped}, {"aligned", core.Aligned}}
	failures = []word[core.FailureMode]{{"local", core.FailLocal}, {"open", core.FailOpen}, {"closed", core.FailClosed}}
	parts    = []word[core.HeaderStyle]{{"legacy", core.HeadersLegacy}, {"ietf", core.HeadersIETF}, {"draft6", core.HeadersDraft6}}
	styles   = append([]word[core.HeaderStyle]{{"default", core.HeadersDefault}, {"none", core.HeadersNone}}, parts...)
)

// policies reads all policies of a file.
func (d *document) policies() map[string]core.Policy {
	list, path := d.root, ""
	if list.Type() != ast.SequenceType {
		if list = d.object(d.root, "", "a file of policies", []string{"policies"}, "policies").fields["policies"]; list == nil {
			return nil
		}
		path = "policies"
	}
	byName, first := make(map[string]core.Policy), make(map[string]string)
	for i, n := range d.list(d.follow(list, path), path, "policies") {
		at := fmt.Sprintf("%s[%d]", path, i)
		p := d.policy(d.follow(n, at), at)
		name := d.values[at+".name"]
		switch before := first[p.Name]; {
		case name == nil || d.wrongs[name]:
		case before != "":
			d.wrong(name, at+".name", shown(name), "is the name of "+before+" already")
		default:
			first[p.Name] = at + " (line " + strconv.Itoa(name.GetToken().Position.Line) + ")"
			byName[p.Name] = p
		}
	}
	return byName
}

// policy reads one policy.
func (d *document) policy(n ast.Node, path string) core.Policy {
	o := d.object(n, path, "a policy", []string{"name", "limits", "on_failure", "local_share", "headers", "shadow"}, "name", "limits")
	p := core.Policy{
		Name:       field(o, "name", text),
		OnFailure:  field(o, "on_failure", oneOf(failures)),
		LocalShare: field(o, "local_share", rate),
		Shadow:     field(o, "shadow", flag),
		Limits:     field(o, "limits", func(n ast.Node) ([]core.Limit, string) { return d.limits(n, join(path, "limits")), "" }),
		Headers:    field(o, "headers", func(n ast.Node) (core.HeaderStyle, string) { return d.headers(n, join(path, "headers")) }),
	}
	if n := d.values[join(path, "local_share")]; n != nil && !d.wrongs[n] && !(p.LocalShare > 0 && p.LocalShare <= 1) {
		d.wrong(n, join(path, "local_share"), shown(n), "must be above 0 and at most 1") // 0 would mean 1
	}
	for _, m := range mistakesIn(p.Validate()) {
		at := join(path, inFile.Replace(m.Field))
		n := d.values[at]
		if n == nil { // a field of a limit that is a string, or a field that is not given
			n = d.values[at[:max(0, strings.LastIndex(at, "."))]]
		}
		if n != nil && !d.wrongs[n] {
			d.wrong(n, at, quoted(m.Value), inFile.Replace(m.Reason))
		}
	}
	return p
}

// headers reads a style or a list of them.
func (d *document) headers(n ast.Node, path string) (sum core.HeaderStyle, reason string) {
	if n.Type() != ast.SequenceType {
		return oneOf(styles)(n)
	}
	for i, item := range d.list(n, path, "header styles") {
		sum |= value(d, item, fmt.Sprintf("%s[%d]", path, i), func(n ast.Node) (core.HeaderStyle, string) {
			part, reason := oneOf(parts)(n)
			switch both := sum | part; {
			case reason != "":
				reason += " (default and none stand alone, without a list)"
			case both&core.HeadersIETF != 0 && both&core.HeadersDraft6 != 0:
				return 0, "can't be sent together with the others: the RateLimit-Policy of ietf and draft6 differ"
			}
			return part, reason
		})
	}
	return sum, ""
}

// limits reads a list of limits.
func (d *document) limits(n ast.Node, path string) (limits []core.Limit) {
	for i, item := range d.list(n, path, "limits") {
		at := fmt.Sprintf("%s[%d]", path, i)
		limits = append(limits, value(d, item, at, func(n ast.Node) (core.Limit, string) {
			if n.Type() == ast.MappingType {
				return d.limit(n, at), ""
			}
			s, reason := text(n)
			if reason != "" {
				return core.Limit{}, "must be a string such as 100/min burst 20, or a mapping"
			}
			return d.limitText(n, at, s), ""
		}))
	}
	return limits
}

// limit reads a limit that is a mapping.
func (d *document) limit(n ast.Node, path string) core.Limit {
	o := d.object(n, path, "a limit", []string{"name", "capacity", "refill_rate", "refill_interval", "mode"}, "refill_rate", "refill_interval")
	l := core.Limit{
		Name:           field(o, "name", limitName),
		Capacity:       field(o, "capacity", tokens),
		RefillRate:     field(o, "refill_rate", rate),
		RefillInterval: field(o, "refill_interval", interval),
		Mode:           field(o, "mode", oneOf(modes)),
	}
	if o.fields["capacity"] == nil {
		var reason string
		if l.Capacity, reason = quantity.ImpliedCapacity(l.RefillRate); reason != "" {
			d.wrong(n, join(path, "capacity"), "", reason)
		}
	}
	return l
}

func limitName(n ast.Node) (s, reason string) {
	if s, reason = text(n); reason == "" && s == "" {
		reason = "must not be empty: leave it out"
	}
	return s, reason
}

// limitText reads a limit that is the string s.
func (d *document) limitText(n ast.Node, path, s string) core.Limit {
	l, err := core.ParseLimit(s)
	form := ": a limit is " + quantity.LimitForm
	for _, m := range mistakesIn(err) {
		at, value, reason := strings.TrimSuffix(join(path, inFile.Replace(m.Field)), "."), "", inFile.Replace(m.Reason)
		if at == path {
			reason, form = reason+form, "" // once is enough
		}
		if m.Value != "" {
			value = quoted(m.Value)
		}
		d.wrong(n, at, value, reason)
	}
	return l
}

// inFile gives the fields of core.Policy and core.Limit the names that files use.
var inFile = strings.NewReplacer("Policy.", "", "Limit.", "", "Limits", "limits", "Limit", "", "Name", "name",
	"Capacity", "capacity", "RefillRate", "refill_rate", "RefillInterval", "refill_interval", "Mode", "mode",
	"OnFailure", "on_failure", "LocalShare", "local_share", "Headers", "headers")

// mistakesIn returns the mistakes that core has joined in err.
func mistakesIn(err error) (list []*core.ConfigError) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, each := range joined.Unwrap() {
			list = append(list, each.(*core.ConfigError))
		}
	}
	return list
}

// quoted returns the value of a mistake as messages show it.
func quoted(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(clip(s, 80))
	}
	return fmt.Sprint(v)
}
