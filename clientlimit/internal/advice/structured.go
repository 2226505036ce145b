package advice

import (
	"cmp"
	"net/http"
	"strings"
)

// structured reads the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers: from draft 8 on lists such as
//
//	RateLimit-Policy: "burst";q=20;w=2, "daily";q=1000;w=86400;qu="tokens"
//	RateLimit: "burst";r=7;t=1, "daily";r=900
//
// where r can be called a, and w can stand in RateLimit; and in draft 7 one
// limit:
//
//	RateLimit: limit=20, remaining=7, reset=1
//
// A limit of several partitions (pk) is listed once for each that counts.
func structured(h http.Header, c clock) (quotas []Quota) {
	policies := members(h["Ratelimit-Policy"])
	var remaining, reset string // of draft 7
	for _, m := range members(h["Ratelimit"]) {
		if key, value, ok := strings.Cut(m.name, "="); ok && !m.quoted {
			switch key {
			case "remaining":
				remaining = value
			case "reset":
				reset = value
			}
			continue
		}
		unit, window := "", m.param("w")
		for _, p := range policies {
			if p.name == m.name {
				unit, window = p.param("qu"), cmp.Or(window, p.param("w"))
				break
			}
		}
		// Without t the limit is reset within its window.
		quotas = c.quota(quotas, unit, cmp.Or(m.param("r"), m.param("a")), cmp.Or(m.param("t"), window))
	}
	return c.quota(quotas, "", remaining, reset)
}

// quota adds what is left of a limit, if it is said.
func (c clock) quota(quotas []Quota, unit, left, reset string) []Quota {
	n, ok := count(left)
	if !ok || unit == slots {
		return quotas
	}
	d := c.until(reset)
	return append(quotas, Quota{Unit: cmp.Or(unit, Requests), Left: n, Reset: d.left, Whole: d.whole})
}

// member is a member of a structured field (RFC 9651): a name, or key=value,
// with parameters.
type member struct {
	name   string // without quotes
	quoted bool   // it had them
	params []string
}

// param returns the value of a parameter, without quotes, or "". Of several the
// last one counts.
func (m member) param(key string) (value string) {
	for _, p := range m.params {
		if k, v, _ := strings.Cut(p, "="); strings.TrimSpace(k) == key {
			value = unquoted(v)
		}
	}
	return value
}

const (
	maxLines  = MaxQuotas // lines of one field that count
	maxLength = 1 << 10   // bytes of one line that count
)

// members splits the lines of a field at the commas and semicolons outside of
// strings. It takes what it understands, and leaves it to others to check the
// rest.
func members(lines []string) (list []member) {
	for _, line := range lines[:min(len(lines), maxLines)] {
		for line = line[:min(len(line), maxLength)]; line != "" && len(list) < MaxQuotas; {
			var m member
			var part string
			for end := byte(';'); end == ';'; {
				part, end, line = cut(line)
				if m.name == "" {
					m.name, m.quoted = unquoted(part), strings.HasPrefix(strings.TrimSpace(part), `"`)
				} else {
					m.params = append(m.params, part)
				}
			}
			if m.name != "" {
				list = append(list, m)
			}
		}
	}
	return list
}

// cut cuts s at its first comma or semicolon outside of a string. end is which
// of them it was, or 0.
func cut(s string) (part string, end byte, rest string) {
	inside := false
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case inside && b == '\\':
			i++
		case b == '"':
			inside = !inside
		case !inside && (b == ',' || b == ';'):
			return s[:i], b, s[i+1:]
		}
	}
	return s, 0, ""
}

// unquoted returns a bare item without its quotes and escapes.
func unquoted(s string) string {
	s = strings.TrimSpace(s)
	if inner, ok := strings.CutPrefix(s, `"`); ok {
		return escapes.Replace(strings.TrimSuffix(inner, `"`))
	}
	return s
}

var escapes = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
