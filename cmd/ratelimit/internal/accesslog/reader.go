// Package accesslog reads the requests of access logs: in the combined format,
// as JSON lines, and as CSV.
package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Formats are the names of the formats.
var Formats = []string{"auto", "combined", "json", "csv"}

// Options say what a log looks like.
type Options struct {
	Format string            // one of Formats; auto tells each log's by its first line
	Fields map[string]string // which field of a log has what package accesslog calls time, ip, method, target, status
	Zone   *time.Location    // of times without one; nil: UTC
}

// parser reads lines of one format. Values are valid until the next line.
type parser interface {
	parse(line []byte) error
	value(name string) []byte // nil if the line has none
}

// Line is one request.
type Line struct {
	Number int   // from 1
	Micros int64 // its time, in µs since 1970

	Zoneless bool // the log has its time without a zone
	Twice    bool // and clocks show it twice: it is read as one of the two

	parser parser
	fields map[string][]string
	parsed url.Values // of the query; nil: not parsed yet
}

// Bad is a line that can't be read.
type Bad struct {
	Number int
	Text   string // at most its first 200 bytes
	Err    error
}

// Read reads the lines of a log. For each it calls either line or bad. What
// they get is valid until they return. The error is that of the reader, such as
// of a file that is cut off; the lines before were read.
func Read(r io.Reader, o Options, line func(*Line) error, bad func(Bad)) error {
	lines, err := newLines(r)
	if err != nil {
		return err
	}
	l := Line{fields: candidates(o.Fields)}
	times := clock{zone: cmp.Or(o.Zone, time.UTC)}
	for {
		text, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLong):
			bad(Bad{Number: lines.number, Err: err})
			continue
		case err != nil:
			return fmt.Errorf("line %d: %w", lines.number, err)
		case len(bytes.TrimSpace(text)) == 0:
			continue
		}
		if l.parser == nil {
			p, isHeader, err := open(o.Format, text, l.fields["time"])
			if err != nil {
				bad(Bad{lines.number, clipped(text), err})
				continue
			}
			if l.parser = p; isHeader {
				continue
			}
		}
		err = l.parser.parse(text)
		if err == nil {
			l.Number, l.parsed = lines.number, nil
			l.Micros, err = times.read(l.Value("time"))
			l.Zoneless, l.Twice = times.zoneless, times.twice
		}
		if err != nil {
			bad(Bad{lines.number, clipped(text), err})
			continue
		}
		if err := line(&l); err != nil {
			return err
		}
	}
}

// namesOneOf reports whether a line is a header of CSV with one of the names.
func namesOneOf(line []byte, names []string) bool {
	c, err := newCSV(line)
	return err == nil && len(c.index) > 1 && slices.ContainsFunc(names, func(name string) bool {
		_, ok := c.index[name]
		return ok
	})
}

// open returns the parser of a format, or of the one that a log's first line is
// in: a header of CSV names one of times. isHeader reports that this line has
// the names of fields.
func open(format string, first []byte, times []string) (p parser, isHeader bool, err error) {
	trimmed := bytes.TrimSpace(first)
	if format == "" || format == "auto" {
		switch {
		case trimmed[0] == '{':
			format = "json"
		case (&combined{make(map[string][]byte)}).parse(first) == nil:
			format = "combined"
		case namesOneOf(first, times):
			format = "csv"
		default:
			return nil, false, errors.New("the format is not clear: name it by -format, and the time of a CSV by -field time=NAME")
		}
	}
	switch format {
	case "json":
		return &jsonLines{paths: make(map[string][]string)}, false, nil
	case "csv":
		p, err := newCSV(first)
		if err != nil {
			return nil, false, err
		}
		return p, true, nil
	default:
		return &combined{make(map[string][]byte)}, false, nil
	}
}

func clipped(line []byte) string { return string(line[:min(len(line), 200)]) }

// aliases are what fields are called in the logs of well-known servers.
var aliases = map[string][]string{
	"time":       {"time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "msec", "StartUTC", "datetime", "date"},
	"ip":         {"ip", "remote_addr", "remote_ip", "client_ip", "clientip", "request.remote_ip", "request.client_ip", "ClientHost", "ClientAddr", "remote"},
	"method":     {"method", "request_method", "request.method", "RequestMethod", "http_method"},
	"target":     {"target", "uri", "request_uri", "request.uri", "RequestPath", "path", "url"},
	"status":     {"status", "status_code", "DownstreamStatus"},
	"user_agent": {"user_agent", "http_user_agent", "userAgent", "agent"},
}

// Check returns an error if a field is named that no log is asked for.
func (o Options) Check() error {
	for name := range o.Fields {
		if aliases[name] == nil && name != "path" {
			return fmt.Errorf("%q must be time, ip, method, target, status or user_agent, which a field of the log can be", name)
		}
	}
	return nil
}

// candidates returns the names by which a field is looked for, with those of
// the user alone where there are any.
func candidates(given map[string]string) map[string][]string {
	names := make(map[string][]string)
	for name, list := range aliases {
		names[name] = slices.Clone(list)
	}
	for name, field := range given {
		if name == "path" {
			name = "target"
		}
		names[name] = []string{field}
	}
	return names
}

// Value returns a field: time, ip, method, target, path, status, query:NAME, or
// one by its name in the log. It is nil if the line has none: a sole dash is
// none.
func (l *Line) Value(name string) []byte {
	if parameter, ok := strings.CutPrefix(name, "query:"); ok {
		return l.query(parameter)
	}
	if name == "path" {
		return l.path()
	}
	names := l.fields[name]
	if names == nil {
		return noDash(l.parser.value(name))
	}
	for _, name := range names {
		if v := noDash(l.parser.value(name)); v != nil {
			return v
		}
	}
	return nil
}

func noDash(v []byte) []byte {
	if len(v) == 0 || len(v) == 1 && v[0] == '-' {
		return nil
	}
	return v
}

// path is the target without its query, and without percent-encoding where that
// is valid.
func (l *Line) path() []byte {
	target, _, _ := bytes.Cut(l.Value("target"), []byte("?"))
	if bytes.IndexByte(target, '%') >= 0 {
		if plain, err := url.PathUnescape(string(target)); err == nil {
			return []byte(plain)
		}
	}
	return target
}

// query is the first value of a parameter.
func (l *Line) query(parameter string) []byte {
	if l.parsed == nil {
		_, text, _ := bytes.Cut(l.Value("target"), []byte("?"))
		l.parsed, _ = url.ParseQuery(string(text)) // with what could be read
	}
	return []byte(l.parsed.Get(parameter))
}
