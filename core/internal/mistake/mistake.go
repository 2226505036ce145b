// Package mistake describes mistakes in configurations, each with its code. It
// is a package because limits, stores and policy files report them, and core
// names its type ConfigError.
package mistake

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Error is one mistake in a configuration. Constructors report all mistakes at
// once, joined with [errors.Join]. [errors.As] finds the first.
type Error struct {
	Field  string // as written in Go, such as Policy.Limits[1].Capacity; or the name of an option or an argument
	Value  any    // the field's value
	Reason string // what the value must be
}

// New returns an Error.
func New(field string, value any, reason string) *Error { return &Error{field, value, reason} }

// ShortSecret returns the mistake of a secret that is so short that all of its
// length could be tried, or nil.
func ShortSecret(option string, secret []byte) *Error {
	if len(secret) < 16 {
		return New(option+" length", len(secret), "must be at least 16 bytes")
	}
	return nil
}

// Error returns the field, its value, the reason, and the code in parentheses,
// if there is one. Of the keys of overrides it shows only their kinds: see
// [Hidden].
func (e *Error) Error() string {
	text := Hidden(e.Field) + ": " + Says(e)
	if code := e.Code(); code != "" {
		text += " (" + code + ")"
	}
	return printable.Text(text)
}

// Says returns the value of e and the reason, without field and code.
func Says(e *Error) string { return printable.Text(e.value() + " " + e.Reason) }

// Code returns the code of this kind of mistake, such as RL102. docs/errors.md
// has a section for each code. Code is empty for options of stores and
// middleware outside this module.
func (e *Error) Code() string {
	for _, kind := range codesOfReasons {
		if strings.HasPrefix(e.Reason, kind.begins) {
			return kind.code
		}
	}
	name := lastName(e.Field)
	if code := codesOfNames[name]; code != "" {
		return code
	}
	function, _, _ := strings.Cut(name, " ") // of which name is an argument
	return codesOfNames[function]
}

// codesOfReasons are the codes of mistakes that can occur in any field, by how
// the reason begins.
var codesOfReasons = []struct{ begins, code string }{
	{notAField, "RL206"},
	{"is given a second time", "RL207"},
	{"is the name of", "RL115"},
	{"is no limit of", "RL119"}, {"would be ", "RL119"},
	{"is a unit that", "RL117"},
	{"has a limit of", "RL118"},
	{"is too large:", "RL204"}, {"is nested too deep", "RL204"}, {"has too many mistakes", "RL204"},

	// Of files alone.
	{"invalid YAML", "RL202"}, {"the file is not UTF-8", "RL202"}, {"the file is empty", "RL202"},
	{"is a tag", "RL203"}, {"begins a complex key", "RL203"}, {"begins a second document", "RL203"}, {"is part of a name", "RL203"}, {"has a tab", "RL203"},
	{"the file is too large", "RL204"}, {"is one token too many", "RL204"}, {"aliases expand", "RL204"}, {"too many mistakes", "RL204"},
	{"refers to nothing", "RL205"}, {"must be a mapping, or a list of mappings", "RL205"},
}

// notAField begins the reason of a name that is unknown.
const notAField = "is not a field"

// codesOfNames are the codes of all other mistakes, by what lastName returns
// for the field, or the function in front of it. An element of a list has the
// list's name without the s.
var codesOfNames = map[string]string{
	"name": "RL101", "capacity": "RL102", "refillrate": "RL103", "refillinterval": "RL104", "mode": "RL105", "unit": "RL106",
	"location": "RL107", "anchor": "RL108", "maxhold": "RL118", "times": "RL121", "limits": "RL109", "withlimits": "RL109", "perip limits": "RL109", "limit": "RL110",
	"plans": "RL120", "withplan": "RL120", "overrides": "RL111", "blocked": "RL111", "setexception": "RL111", "onfailure": "RL112", "localshare": "RL113", "headers": "RL114", "header": "RL114", "shadow": "RL116",
	"policy": "RL208", "reload limiter": "RL209", "ip address": "RL319",

	"newlimiter": "RL301", "new client": "RL302", "open url": "RL302", "redisstore option": "RL303", "withtimeout": "RL304", "withbreaker": "RL304",
	"withprefix": "RL304", "withdenycache": "RL304", "withlease": "RL304", "withmaxkeys": "RL304", "withwindow": "RL304",
	"new timeout": "RL304", "new failures": "RL304", "new pause": "RL304", "withclock": "RL305",
	"withkeysecret": "RL318",

	"new limiter": "RL306", "limiters": "RL306", "allow limiter": "RL306", "limiter": "RL306", "new key": "RL307", "key": "RL307", "join": "RL307", "firstof": "RL307",
	"byheader": "RL308", "bycookie": "RL308", "byquery": "RL308", "byparam": "RL308", "bymetadata": "RL308", "bytool": "RL308", "methods": "RL308", "global": "RL308", "withpolicyfile": "RL308", "bycontextvalue": "RL309",
	"byrouteof": "RL310", "trustproxies": "RL311", "trustheader": "RL312", "ipv6prefix": "RL313",
	"costbycontentlength": "RL314", "costbycontentlengthor": "RL314", "withsettle": "RL315", "withmaxseries": "RL317", "witheventlog": "RL317", "withbuckets": "RL317", "withredisstore": "RL317", "withmeterprovider": "RL317", "newtogether": "RL316", "withcost": "RL320",
	"new authorise": "RL321", "hosts": "RL321",
	"withlimiter": "RL322", "withkey": "RL322", "withqueue": "RL322", "withattempts": "RL322", "withmaxwait": "RL322",
}

// lastName returns the last name in a field, in lower case and without "_": Go
// and files write fields differently. For an element of a list it is the list's
// name without the s.
func lastName(field string) string {
	field = strings.ReplaceAll(strings.ToLower(field), "_", "")
	for _, lists := range []string{"overrides", "plans"} {
		if _, key, found := strings.Cut(field, lists+"."); found { // the key may hold any bytes
			end := strings.LastIndexByte(key, ']')
			if end < 0 {
				return lists
			}
			field = "limits[" + key[end:]
			break
		}
	}
	name := field[strings.LastIndexByte(field, '.')+1:]
	if list, _, isElement := strings.Cut(name, "["); isElement {
		return strings.TrimSuffix(list, "s")
	}
	return name
}

func (e *Error) value() string {
	if s, ok := e.Value.(string); ok {
		return strconv.Quote(printable.Clip(HiddenValue(e, s), 80))
	}
	return fmt.Sprint(e.Value)
}
