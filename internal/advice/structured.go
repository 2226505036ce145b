package advice

import (
	"strings"
)

// structured reads the fields RateLimit and RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers: in drafts 8 to 11 lists such as
//
//	RateLimit-Policy: "burst";q=20;w=2, "daily";q=1000;w=86400;qu="tokens"
//	RateLimit: "burst";r=7;t=1, "daily";r=900
//
// and in draft 7 one limit:
//
//	RateLimit: limit=20, remaining=7, reset=1
//
// A limit of several partitions (pk) is listed once for each that counts.
func structured(fields Fields, c clock) []Quota {
	limits := members(fields("Ratelimit"))
	if len(limits) == 0 {
		return nil
	}
	if !limits[0].quoted && strings.Contains(limits[0].name, "=") {
		return draft7(limits, c)
	}
	policies := members(fields("Ratelimit-Policy"))
	var quotas []Quota
	for _, m := range limits {
		left, ok := count(m.param("r"))
		if !ok {
			continue
		}
		q := Quota{Unit: Requests, Left: left}
		reset, said := c.until(m.param("t"))
		for _, p := range policies {
			if p.name != m.name {
				continue
			}
			q.Limit, _ = count(p.param("q"))
			if unit := p.param("qu"); unit != "" {
				q.Unit = unit
			}
			if !said { // then it is reset within its window
				reset, _ = c.until(p.param("w"))
			}
			break
		}
		q.Reset, q.Whole = reset.left, reset.whole
		quotas = append(quotas, q)
	}
	return quotas
}

// draft7 reads the one limit of a dictionary.
func draft7(entries []member, c clock) []Quota {
	q, known := Quota{Unit: Requests}, false
	for _, m := range entries {
		switch key, value, _ := strings.Cut(m.name, "="); key {
		case "limit":
			q.Limit, _ = count(value)
		case "remaining":
			q.Left, known = count(value)
		case "reset":
			reset, _ := c.until(value)
			q.Reset, q.Whole = reset.left, reset.whole
		}
	}
	if !known {
		return nil
	}
	return []Quota{q}
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
