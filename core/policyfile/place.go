package policyfile

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// place is a value of the file and where it is. Places are a tree, so that a
// name takes memory once, however many values are below it.
type place struct {
	above  *place
	name   string // of a field, or the number of an item in brackets
	depth  int
	node   ast.Node
	key    ast.Node // of a field
	inside map[string]*place
}

func (p *place) in(name string) *place {
	if below := p.inside[name]; below != nil {
		return below
	}
	below := &place{above: p, name: name, depth: p.depth + 1}
	if p.inside == nil {
		p.inside = make(map[string]*place)
	}
	p.inside[name] = below
	return below
}

func (p *place) item(i int) *place { return p.in("[" + strconv.Itoa(i) + "]") }

// path returns where p is in the form of [Error.Field].
func (p *place) path() string {
	if p.above == nil {
		return ""
	}
	return joined(p.above.path(), printable.Clip(p.name, maxName))
}

// joined returns a path with the name of a field or an item behind it, if there
// is any.
func joined(path, name string) string {
	if path == "" || name == "" || name[0] == '[' {
		return path + name
	}
	return path + "." + name
}

// find returns the place below p that core calls field, such as
// Policy.Limits[0].Capacity, or else that above it and what is missing. The
// keys of overrides may hold any bytes.
func (p *place) find(field string) (found *place, missing string) {
	field = strings.TrimPrefix(strings.TrimPrefix(field, "Policy"), ".")
	for _, name := range []string{"Overrides", "Plans"} {
		rest, ok := strings.CutPrefix(field, name+".")
		if !ok {
			continue
		}
		lists := p.inside[inFile.Replace(name)]
		if lists == nil {
			return p, inFile.Replace(name)
		}
		key := lists.keyOf(rest)
		if key == nil {
			return lists, ""
		}
		p, field = key, strings.TrimPrefix(rest, shortened(rest, key.name))
	}
	for _, name := range strings.FieldsFunc(strings.ReplaceAll(inFile.Replace(field), "[", ".["), func(r rune) bool { return r == '.' }) {
		below := p.inside[name]
		if below == nil {
			return p, joined(missing, name)
		}
		p = below
	}
	return p, ""
}

// keyOf returns the place of the key that rest begins with, as core writes it.
func (p *place) keyOf(rest string) (longest *place) {
	for name, below := range p.inside {
		behind, ok := strings.CutPrefix(rest, shortened(rest, name))
		if ok && (behind == "" || behind[0] == '[') && (longest == nil || len(name) > len(longest.name)) {
			longest = below
		}
	}
	return longest
}

// shortened is a key as core writes it in front of rest: in some messages only
// its first 128 bytes.
func shortened(rest, key string) string {
	if short := printable.Clip(key, 128); strings.HasPrefix(rest, short) {
		return short
	}
	return key
}

// inFile gives the fields of core.Policy and core.Limit the names that files
// use.
var inFile = strings.NewReplacer("RateLimit-Policy", "RateLimit-Policy", "Policy.", "", "Policy", "", "Limits", "limits", "Name", "name",
	"Capacity", "capacity", "RefillRate", "refill_rate", "RefillInterval", "refill_interval", "Mode", "mode", "Shadow", "shadow",
	"OnFailure", "on_failure", "LocalShare", "local_share", "Headers", "headers", "Overrides", "overrides", "Plans", "plans", "Blocked", "blocked", "Unit", "unit", "MaxHold", "max_hold", "Times", "times", "Location", "location", "Anchor", "anchor")
