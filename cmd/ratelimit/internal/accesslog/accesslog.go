// Package accesslog reads the requests of access logs: in the combined and the
// common log format, and as JSON lines, compressed with gzip or not.
package accesslog

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// Line is one request of a log.
type Line struct {
	Number int // in its log, from 1
	Time   time.Time

	fields map[string][]string
	parser fastjson.Parser
}

// aliases are what servers call the fields that every log has, the most precise
// first. Traefik writes when a request began as StartUTC, and when it ended as
// time.
var aliases = map[string][]string{
	"time":   {"StartUTC", "ts", "msec", "time_iso8601", "time_local", "time", "timestamp", "@timestamp"},
	"method": {"method", "request_method", "request.method", "RequestMethod"},
	"target": {"request_uri", "request.uri", "RequestPath", "uri", "url", "path"},
	"status": {"status", "DownstreamStatus", "status_code"},
}

// Value returns the value of a field: time, method, target or status, whatever
// the server calls it, or one by its name in the log. It is "" if the line has
// none, or has what servers write instead: a dash, or REDACTED.
//
// Fields of the combined log format have nginx's names: remote_addr,
// remote_user, http_referer, http_user_agent, and http_x_forwarded_for for what
// stands in quotes behind the user agent. A member of an object in JSON is
// request.host, and one of its own members request.headers.Referer.
func (l *Line) Value(field string) string {
	names, ok := aliases[field]
	if !ok {
		names = []string{field}
	}
	if values, _ := l.Values(names...); len(values) > 0 && isValue(values[0]) {
		return values[0]
	}
	return ""
}

// Values returns the values of the first of the fields that has one, and
// whether the line has any of the fields, which may be empty.
func (l *Line) Values(names ...string) (values []string, has bool) {
	for _, name := range names {
		v, ok := l.fields[name]
		if has = has || ok; slices.ContainsFunc(v, isValue) {
			return v, true
		}
	}
	return nil, has
}

func isValue(text string) bool { return text != "" && text != "-" && text != "REDACTED" }

// maxLine is the length from which on a line is not read, in bytes.
const maxLine = 1 << 20

// Read reads the lines of a log one after the other, so that a log of any size
// needs little memory. It calls request for each request, and bad for each line
// that is none. A *Line is valid until request returns. Read returns the error
// of request, or of r, such as of a file that is cut off.
func Read(r io.Reader, request func(*Line) error, bad func(number int, why error)) error {
	lines := bufio.NewReaderSize(r, maxLine)
	if magic, _ := lines.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(lines)
		if err != nil {
			return err
		}
		lines = bufio.NewReaderSize(z, maxLine)
	}
	l := Line{fields: make(map[string][]string)}
	for l.Number = 1; ; l.Number++ {
		text, long, err := lines.ReadLine()
		for rest := long; rest && err == nil; {
			_, rest, err = lines.ReadLine()
		}
		switch {
		case long:
			bad(l.Number, fmt.Errorf("the line has %d bytes or more", maxLine))
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		switch ok, err := l.parse(string(text)); {
		case err != nil:
			bad(l.Number, err)
		case ok:
			if err := request(&l); err != nil {
				return err
			}
		}
	}
}

// parse reads a line. It returns false for a blank one.
func (l *Line) parse(text string) (bool, error) {
	text = strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) // some editors begin a file with a byte order mark
	if text == "" {
		return false, nil
	}
	clear(l.fields)
	parse := l.parseCombined
	if text[0] == '{' {
		parse = l.parseJSON
	}
	err := parse(text)
	if err == nil {
		l.Time, err = parseTime(l.Value("time"))
	}
	return err == nil, err
}
