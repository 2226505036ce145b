package accesslog

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// csvLines reads values separated by commas, or by what the first line, which
// has their names, has instead: semicolons or tabs. A record is one line: a
// quote that is not closed there spoils no further lines.
type csvLines struct {
	reader *csv.Reader
	line   oneLine
	index  map[string]int
	record []string
}

// oneLine gives a reader one line at a time.
type oneLine struct{ rest []byte }

func (o *oneLine) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// newCSV reads the names of the first line.
func newCSV(header []byte) (*csvLines, error) {
	c := &csvLines{index: make(map[string]int)}
	comma := ','
	for _, other := range ";\t" {
		if strings.Count(string(header), string(other)) > strings.Count(string(header), string(comma)) {
			comma = other
		}
	}
	c.reader = c.fresh(comma)
	if err := c.parse(header); err != nil {
		return nil, err
	}
	for i, name := range c.record {
		name = strings.TrimSpace(name)
		if _, twice := c.index[name]; !twice {
			c.index[strings.Clone(name)] = i
		}
	}
	return c, nil
}

func (c *csvLines) parse(line []byte) (err error) {
	c.line.rest = append(append(c.line.rest[:0], line...), '\n')
	c.record, err = c.reader.Read()
	if err == nil {
		return nil
	}
	c.line.rest = c.line.rest[:0]
	c.reader = c.fresh(c.reader.Comma) // what it has buffered belongs to this line
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		err = parse.Err
	}
	return errors.New("the line is not CSV: " + err.Error())
}

// fresh returns a reader that has read nothing. After a comma there may be
// spaces; between tabs they are none, so that a value may be empty.
func (c *csvLines) fresh(comma rune) *csv.Reader {
	r := csv.NewReader(&c.line)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord, r.TrimLeadingSpace = comma, -1, true, comma != '\t'
	return r
}

func (c *csvLines) value(name string) []byte {
	if i, ok := c.index[name]; ok && i < len(c.record) {
		return []byte(c.record[i])
	}
	return nil
}
