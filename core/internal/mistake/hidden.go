package mistake

import (
	"slices"
	"strings"
)

// Hidden returns a field without the key of an override in it, which can be an
// API key or personal data, and messages are logged. Of the key only its kind
// stays, which ends at the first colon:
// Policy.Overrides.x-api-key:…[0].Capacity.
func Hidden(field string) string {
	at := strings.Index(field, "verrides.") // in Go Overrides, in files overrides
	if at < 0 {
		return field
	}
	at += len("verrides.")
	key, rest := field[at:], ""
	if i := strings.LastIndexByte(key, '['); i >= 0 && isIndex(key[i:]) { // a limit of the override
		key, rest = key[:i], key[i:]
	}
	return field[:at] + KindOf(key) + "…" + rest
}

// KindOf returns the kind of a key with its colon, or "" if it has none. Of a
// joined key it is that of its first part. A part without a kind can be a
// secret.
func KindOf(key string) string {
	kind, _, found := strings.Cut(key, ":")
	if !found || strings.ContainsAny(kind, "%|") {
		return ""
	}
	return kind + ":"
}

// HiddenName returns the name of an unknown field as messages may show it. With
// a colon, which no field has, it can be the key of an override at a wrong
// place: only its kind stays.
func HiddenName(name string) string {
	if strings.Contains(name, ":") {
		return KindOf(name) + "…"
	}
	return name
}

// hiddenValue returns s, which is the value of a field, as messages may show
// it: where overrides stand it is a [HiddenName].
func hiddenValue(field, s string) string {
	if slices.Contains([]string{"overrides", "blocked"}, lastName(field)) {
		return HiddenName(s)
	}
	return s
}

func isIndex(s string) bool {
	number, name, closed := strings.Cut(s[1:], "]")
	return closed && number != "" && strings.Trim(number, "0123456789") == "" &&
		(name == "" || name[0] == '.' && !strings.ContainsAny(name[1:], ".:]"))
}
