package accesslog

import (
	"bytes"
	"errors"
	"strconv"
)

// combined reads the combined log format of Apache and nginx, and the common
// one, which ends after the size. A host may stand in front of the address.
// Values in quotes behind the user agent are extra1, extra2 and so on.
type combined struct{ values map[string][]byte }

var errCombined = errors.New(`the line is not in the combined format: ADDRESS - USER [TIME] "METHOD PATH PROTOCOL" STATUS SIZE "REFERER" "USER AGENT"`)

// names of the values in quotes behind the size.
var behindSize = [...]string{"referer", "user_agent", "extra1", "extra2", "extra3", "extra4", "extra5", "extra6"}

func (c *combined) parse(line []byte) error {
	clear(c.values)
	// A client chooses the user, who may have brackets too, but no quote.
	end := bytes.Index(line, []byte(`] "`))
	if end < 0 {
		return errCombined
	}
	open := bytes.LastIndexByte(line[:end], '[')
	if open < 0 {
		return errCombined
	}
	before := line[:open]
	address, before, ok := bytes.Cut(before, []byte(" "))
	if !ok {
		return errCombined
	}
	if words := bytes.Fields(before); len(words) > 2 && bytes.Equal(words[1], []byte("-")) && !bytes.Equal(words[0], []byte("-")) {
		c.values["host"], address, words = address, words[0], words[1:] // HOST ADDRESS - USER
		c.values["user"] = words[1]
	} else if len(words) > 1 {
		c.values["user"] = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(before), words[0])) // it may have spaces
	}
	c.values["ip"], c.values["time"] = address, line[open+1:end]

	request, rest, ok := inQuotes(line[end+1:])
	if !ok || len(address) == 0 {
		return errCombined
	}
	method, target, ok := bytes.Cut(request, []byte(" "))
	if ok { // of a request that could not be read, servers log what came
		target, _, _ = bytes.Cut(target, []byte(" "))
		c.values["method"], c.values["target"] = method, target
	}
	rest = bytes.TrimLeft(rest, " ")
	status, rest, _ := bytes.Cut(rest, []byte(" "))
	size, rest, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	c.values["status"], c.values["bytes"] = status, size
	for _, name := range behindSize {
		value, after, ok := inQuotes(rest)
		if !ok {
			break
		}
		c.values[name], rest = value, after
	}
	return nil
}

func (c *combined) value(name string) []byte { return c.values[name] }

// inQuotes returns the value in quotes that text begins with, after spaces, and
// what follows it.
func inQuotes(text []byte) (value, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " ")
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	escaped := false
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			if value = text[1:i]; escaped {
				value = unescape(value)
			}
			return value, text[i+1:], true
		}
	}
	return nil, nil, false
}

// unescape returns a value without the escapes of Apache and nginx.
func unescape(value []byte) []byte {
	made := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' || i+1 == len(value) {
			made = append(made, value[i])
			continue
		}
		i++
		switch value[i] {
		case 'n':
			made = append(made, '\n')
		case 't':
			made = append(made, '\t')
		case 'r':
			made = append(made, '\r')
		case 'x':
			if i+2 < len(value) {
				if b, err := strconv.ParseUint(string(value[i+1:i+3]), 16, 8); err == nil {
					made = append(made, byte(b))
					i += 2
					continue
				}
			}
			made = append(made, '\\', 'x')
		default:
			made = append(made, value[i])
		}
	}
	return made
}
