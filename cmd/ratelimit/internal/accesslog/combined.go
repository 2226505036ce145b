package accesslog

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

var (
	errCombined = errors.New(`the line is neither JSON nor in the combined log format: ADDRESS - USER [TIME] "METHOD TARGET PROTOCOL" STATUS SIZE "REFERER" "USER AGENT"`)
	errTwo      = errors.New("the line begins with two addresses, and does not say which is the client's")
)

// parseCombined reads a line of the combined or the common log format, such as
//
//	192.0.2.1 - ann [02/Mar/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 12 "-" "curl/8.5.0"
//
// A host may stand in front, and several addresses with commas between them.
// Clients choose the user, also with spaces and brackets, and what is in
// quotes. Servers escape quotes in these, so that the first `] "` ends the
// time.
func (l *Line) parseCombined(text string) error {
	head, _, ok := strings.Cut(text, `] "`)
	begin := strings.LastIndexByte(head, '[')
	if !ok || begin < 0 {
		return errCombined
	}
	address, after := word(head[:begin])
	if second, rest := word(after); !strings.HasSuffix(address, ",") && isAddress(second) {
		if isAddress(address) {
			return errTwo
		}
		l.set("host", address)
		address, after = second, rest
	}
	for strings.HasSuffix(address, ",") {
		var next string
		next, after = word(after)
		address += " " + next
	}
	if next, _ := word(after); isAddress(next) {
		return errTwo // such as X-Forwarded-For and the peer
	}
	_, user := word(after) // behind the identity, which nobody uses
	l.set("remote_addr", address)
	l.set("remote_user", strings.TrimSpace(user))
	l.set("time_local", head[begin+1:])

	request, rest, ok := inQuotes(text[len(head)+2:])
	if !ok {
		return errCombined
	}
	if method, target, ok := strings.Cut(request, " "); ok { // of what is not HTTP, servers log what came
		if end := strings.LastIndex(target, " HTTP/"); end >= 0 {
			target = target[:end]
		}
		l.set("method", method)
		l.set("request_uri", target)
	}
	status, rest := word(rest)
	size, rest := word(rest)
	l.set("status", status)
	l.set("body_bytes_sent", size)
	for _, name := range []string{"http_referer", "http_user_agent", "http_x_forwarded_for"} {
		value, after, ok := inQuotes(rest)
		if !ok || name == "http_x_forwarded_for" && !isForwarded(value) {
			break
		}
		l.set(name, value)
		rest = after
	}
	return nil
}

// isForwarded reports whether what stands behind the user agent can be an
// X-Forwarded-For: it does in the format that nginx is installed with, and in
// other formats something else does.
func isForwarded(value string) bool {
	_, ok := ParseAddr(strings.TrimSpace(value[strings.LastIndexByte(value, ',')+1:]))
	return ok || value == "-"
}

func (l *Line) set(name, value string) { l.fields[name] = []string{value} }

// word splits off the first word of text.
func word(text string) (first, rest string) {
	first, rest, _ = strings.Cut(strings.TrimLeft(text, " "), " ")
	return first, rest
}

// isAddress reports whether a word is an IP address, also with a port, or with
// the comma behind which another one follows.
func isAddress(word string) bool {
	first, _, _ := strings.Cut(word, ",")
	_, ok := ParseAddr(first)
	return ok
}

// ParseAddr parses an IP address, with or without a port and brackets.
func ParseAddr(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr(), true
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a, err == nil
}

// inQuotes returns the value in quotes that text begins with, after spaces, and
// what follows it.
func inQuotes(text string) (value, rest string, ok bool) {
	text = strings.TrimLeft(text, " ")
	if text == "" || text[0] != '"' {
		return "", "", false
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++ // the next character is not the end
		case '"':
			value, err := strconv.Unquote(text[:i+1]) // Apache and nginx escape as Go does
			if err != nil {
				value = text[1:i]
			}
			return value, text[i+1:], true
		}
	}
	return "", "", false
}
