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
	c.reader = csv.NewReader(&c.line)
	c.reader.FieldsPerRecord, c.reader.ReuseRecord = -1, true
	for _, comma := range ",;\t" {
		if strings.Count(string(header), string(comma)) > strings.Count(string(header), string(c.reader.Comma)) {
			c.reader.Comma = comma
		}
	}
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
	c.reader = c.fresh() // what it has buffered belongs to this line
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		err = parse.Err
	}
	return errors.New("the line is not CSV: " + err.Error())
}

// fresh returns a reader like c's that has read nothing.
func (c *csvLines) fresh() *csv.Reader {
	r := csv.NewReader(&c.line)
	r.Comma, r.FieldsPerRecord, r.ReuseRecord = c.reader.Comma, -1, true
	return r
}

func (c *csvLines) value(name string) []byte {
	if i, ok := c.index[name]; ok && i < len(c.record) {
		return []byte(c.record[i])
	}
	return nil
}
