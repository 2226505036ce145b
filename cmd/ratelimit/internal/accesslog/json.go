package accesslog

import (
	"errors"
	"strings"

	"github.com/valyala/fastjson"
)

// jsonLines reads a JSON object on each line.
type jsonLines struct {
	parser fastjson.Parser
	object *fastjson.Value
	paths  map[string][]string // of names, split at points
	text   []byte
}

func (j *jsonLines) parse(line []byte) error {
	v, err := j.parser.ParseBytes(line)
	if err != nil {
		return errors.New("the line is not JSON")
	}
	if v.Type() != fastjson.TypeObject {
		return errors.New("the line is not a JSON object")
	}
	j.object = v
	return nil
}

// value returns the member of a name, or of a path such as request.remote_ip.
// Lists, of header fields, have their first item.
func (j *jsonLines) value(name string) []byte {
	v := j.object.Get(name)
	if v == nil && strings.Contains(name, ".") {
		path := j.paths[name]
		if path == nil {
			path = strings.Split(name, ".")
			j.paths[name] = path
		}
		v = j.object.Get(path...)
	}
	if v != nil && v.Type() == fastjson.TypeArray {
		v = v.Get("0")
	}
	if v == nil {
		return nil
	}
	switch v.Type() {
	case fastjson.TypeString:
		return v.GetStringBytes()
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		j.text = v.MarshalTo(j.text[:0])
		return j.text
	}
	return nil
}
