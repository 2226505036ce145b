package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	policyNames = []string{"name", "limits", "on_failure", "local_share", "headers", "shadow"}
	limitNames  = []string{"name", "capacity", "refill_rate", "refill_interval", "mode"}

	// What FailureMode and the parts of HeaderStyle are called, in the order of their values.
	failureNames = []string{"local", "open", "closed"}
	styleNames   = []string{"legacy", "ietf", "draft6"}

	modes    = []word[Mode]{called(Continuous), called(Stepped), called(Aligned)}
	failures = []word[FailureMode]{{failureNames[FailLocal], FailLocal}, {failureNames[FailOpen], FailOpen}, {failureNames[FailClosed], FailClosed}}
	styles   = []word[HeaderStyle]{{"default", HeadersDefault}, {"none", HeadersNone},
		{styleNames[0], HeadersLegacy}, {styleNames[1], HeadersIETF}, {styleNames[2], HeadersDraft6}}
)

// called is what a limit writes of a mode: its name in Go, in lower case.
func called(m Mode) word[Mode] { return word[Mode]{strings.ToLower(m.String()), m} }

// inFile gives the fields of Policy and Limit, and what mistakes say of them, the names that files use.
var inFile = strings.NewReplacer("Policy.", "", "Limits", "limits", "Name", "name", "Capacity", "capacity",
	"RefillRate", "refill_rate", "RefillInterval", "refill_interval", "Mode", "mode",
	"OnFailure", "on_failure", "LocalShare", "local_share", "Headers", "headers")

// policy reads one policy and returns the node of its name, or nil if it has none.
func (d *document) policy(n *yaml.Node, path string) (p Policy, name *yaml.Node) {
	fields, ok := d.mapping(n, path, "a policy", policyNames)
	if !ok {
		return Policy{}, nil
	}
	c := &checks{document: d, path: path, nodes: make(map[string]*yaml.Node), told: make(map[string]bool)}
	for _, field := range policyNames {
		value, found := fields[field]
		at := join(path, field)
		if !found {
			if field == "name" || field == "limits" {
				d.wrong(n, at, "", "is required")
				c.told[field] = true
			}
			continue
		}
		c.nodes[field] = value
		ok := false
		switch field {
		case "name":
			name = value
			p.Name, ok = d.text(value, at, "must be a string")
		case "limits":
			p.Limits = c.limits(value)
			ok = len(p.Limits) > 0
		case "on_failure":
			p.OnFailure, ok = choose(d, value, at, failures)
		case "local_share":
			if p.LocalShare, ok = number(d, value, at, parseNumber); ok && (p.LocalShare <= 0 || p.LocalShare > 1) {
				ok = false // 0 too: as a zero value it would mean 1
				d.wrong(value, at, shown(value), "must be above 0 and at most 1")
			}
		case "headers":
			p.Headers, ok = d.headers(value, at)
		case "shadow":
			var s string
			s, ok = d.scalar(value, at, "must be true or false", "!!bool")
			p.Shadow = strings.EqualFold(s, "true")
			if ok && !p.Shadow && !strings.EqualFold(s, "false") { // a tag can call anything a bool
				ok = false
				d.wrong(value, at, shown(value), "must be true or false")
			}
		}
		c.told[field] = !ok
	}
	c.tell(append(p.mistakes(), limitMistakes(p.Name, p.Limits, "Policy.Limits")...))
	if c.told["name"] {
		name = nil
	}
	return p, name
}

// headers reads a style or a list of them.
func (d *document) headers(n *yaml.Node, path string) (style HeaderStyle, ok bool) {
	if n.Kind != yaml.SequenceNode {
		return choose(d, n, path, styles)
	}
	items := d.list(n, path, "header styles")
	ok = len(items) > 0
	for i, item := range items {
		element := path + "[" + strconv.Itoa(i) + "]"
		s, isText := d.scalar(item, element, "must be legacy, ietf or draft6", "!!str")
		bit := slices.Index(styleNames, strings.ToLower(s))
		one := HeadersLegacy << max(0, bit)
		switch {
		case !isText:
		case bit < 0:
			d.wrong(item, element, shown(item), "must be legacy, ietf or draft6 (default and none stand alone, without a list)")
		case !(style | one).valid():
			d.wrong(item, element, shown(item), "can't be sent together with the others: the RateLimit-Policy of ietf and draft6 differ")
		default:
			style |= one
			continue
		}
		ok = false
	}
	return style, ok
}

// checks knows where the fields of a policy stand, to tell the place of mistakes that show only when
// all is read.
type checks struct {
	*document
	path  string                // of the policy
	nodes map[string]*yaml.Node // of its fields, by path from the policy
	told  map[string]bool       // fields whose mistake is told already
}

// limits reads a list of limits.
func (c *checks) limits(n *yaml.Node) []Limit {
	items := c.list(n, join(c.path, "limits"), "limits")
	limits := make([]Limit, len(items))
	for i, item := range items {
		if c.full {
			break
		}
		field := "limits[" + strconv.Itoa(i) + "]"
		c.nodes[field] = item
		if item.Kind == yaml.MappingNode {
			limits[i] = c.limit(item, field)
			continue
		}
		s, ok := c.text(item, join(c.path, field), "must be a string such as 100/min burst 20, or a mapping")
		if !ok {
			c.told[field] = true
			continue
		}
		var mistakes []*ConfigError
		limits[i], mistakes = parseLimit(s)
		shownForm := false
		for _, m := range mistakes {
			c.told[field] = true
			at := join(c.path, field)
			if m.Field != "" {
				at = join(at, inFile.Replace(m.Field))
			}
			value := ""
			if m.Value != "" {
				value = m.value()
			}
			reason := inFile.Replace(m.Reason)
			if m.Field == "" && !shownForm {
				shownForm = true
				reason += ": a limit is " + limitForm
			}
			c.wrong(item, at, value, reason)
		}
	}
	return limits
}

// limit reads a limit that is a mapping.
func (c *checks) limit(n *yaml.Node, field string) (l Limit) {
	fields, _ := c.mapping(n, join(c.path, field), "a limit", limitNames)
	for _, name := range limitNames {
		value, found := fields[name]
		f := join(field, name)
		at := join(c.path, f)
		if !found {
			if name == "refill_rate" || name == "refill_interval" {
				c.wrong(n, at, "", "is required")
				c.told[f] = true
			}
			continue
		}
		c.nodes[f] = value
		ok := false
		switch name {
		case "name":
			if l.Name, ok = c.text(value, at, "must be a string"); ok && l.Name == "" {
				ok = false
				c.wrong(value, at, shown(value), "must not be empty: leave it out")
			}
		case "capacity":
			l.Capacity, ok = number(c.document, value, at, parseTokens)
		case "refill_rate":
			l.RefillRate, ok = number(c.document, value, at, parseNumber)
		case "refill_interval":
			l.RefillInterval, ok = c.interval(value, at)
		case "mode":
			l.Mode, ok = choose(c.document, value, at, modes)
		}
		c.told[f] = !ok
	}
	if _, given := fields["capacity"]; !given {
		var reason string
		if l.Capacity, reason = impliedCapacity(l.RefillRate); reason != "" {
			c.wrong(n, join(c.path, field+".capacity"), "", reason)
			c.told[field+".capacity"] = true
		}
	}
	return l
}

// interval reads a refill_interval. A bare number could be seconds or, as Go writes durations in JSON,
// nanoseconds.
func (d *document) interval(n *yaml.Node, path string) (v time.Duration, ok bool) {
	if tag := n.ShortTag(); n.Kind == yaml.ScalarNode && (tag == "!!int" || tag == "!!float") {
		d.wrong(n, path, shown(n), "needs a unit, such as "+clip(n.Value, 20)+"s")
		return 0, false
	}
	s, ok := d.scalar(n, path, wantInterval, "!!str")
	if !ok {
		return 0, false
	}
	v, reason := parseInterval(s)
	if reason != "" {
		d.wrong(n, path, shown(n), reason)
	}
	return v, reason == ""
}

// tell reports mistakes that NewLimiter would find, at their places in the file.
func (c *checks) tell(errs []error) {
	for _, err := range errs {
		m, ok := err.(*ConfigError)
		if !ok {
			m = &ConfigError{Reason: fmt.Sprint(err)}
		}
		field := inFile.Replace(m.Field)
		limit, _, _ := strings.Cut(field, ".")
		if c.told[field] || c.told[limit] {
			continue
		}
		n, value := c.nodes[field], ""
		switch {
		case n != nil && n.Kind != yaml.ScalarNode: // the mistake tells what it is of the list
			value = m.value()
		case n != nil:
			value = shown(n)
		case c.nodes[limit] != nil: // a limit that is a string, or a field that is not given
			n, value = c.nodes[limit], m.value()
		default:
			continue
		}
		c.wrong(n, join(c.path, field), value, inFile.Replace(m.Reason))
	}
}
