// Package mistake words mistakes in configurations, and has the code of each.
// It is a package because core and core/policyfile report them. A mistake is a
// field, as written in Go, such as Policy.Limits[1].Capacity, or the name of an
// option or an argument; the field's value; and a reason, which says what the
// value must be.
package mistake

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core/internal/printable"
)

// Text returns the field, its value, the reason, and the code in parentheses,
// if there is one. Of the keys of overrides it shows only their kinds: see
// [Hidden].
func Text(field string, value any, reason string) string {
	text := Hidden(field) + ": " + Says(field, value, reason)
	if code := Code(field, reason); code != "" {
		text += " (" + code + ")"
	}
	return printable.Text(text)
}

// Says is Text without field and code.
func Says(field string, value any, reason string) string {
	shown := fmt.Sprint(value)
	if s, ok := value.(string); ok {
		shown = strconv.Quote(printable.Clip(hiddenValue(field, s), 80))
	}
	return printable.Text(shown + " " + reason)
}

// Code returns the code of a kind of mistake, such as RL102, or "" for options
// of stores and middleware outside this module.
func Code(field, reason string) string {
	for begins, code := range codesOfReasons {
		if strings.HasPrefix(reason, begins) {
			return code
		}
	}
	name := lastName(field)
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
