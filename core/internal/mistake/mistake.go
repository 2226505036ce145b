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
	for begins, code := range codesOfReasons {
		if strings.HasPrefix(e.Reason, begins) {
			return code
		}
	}
	name := lastName(e.Field)
	if code := codesOfFields[name]; code != "" {
		return code
	}
	function, _, _ := strings.Cut(name, " ") // of which name is an argument
	return codesOfFields[function]
}

// codesOfReasons and codesOfFields are the codes by what [Kinds] say.
var codesOfReasons, codesOfFields = func() (reasons, fields map[string]string) {
	reasons, fields = make(map[string]string), make(map[string]string)
	for _, kind := range Kinds {
		for _, reason := range kind.Reasons {
			reasons[reason] = kind.Code
		}
		for _, field := range kind.Fields {
			fields[field] = kind.Code
		}
	}
	return reasons, fields
}()

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
