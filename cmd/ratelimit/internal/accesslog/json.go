package accesslog

import (
	"errors"
	"fmt"

	"github.com/valyala/fastjson"
)

// maxDepth is how deep objects within objects are read: request.headers.Referer
// is a member of the third.
const maxDepth = 3

// parseJSON reads a line that is a JSON object.
func (l *Line) parseJSON(text string) error {
	v, err := l.parser.Parse(text)
	if err != nil {
		return errors.New("the line is not JSON")
	}
	return l.setMembers("", v, 1)
}

// setMembers sets the fields of an object, whose names get a prefix. A name
// that occurs twice is an error: programs differ in which of the two they read.
func (l *Line) setMembers(prefix string, object *fastjson.Value, depth int) (err error) {
	object.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		name := prefix + string(key)
		if _, twice := l.fields[name]; twice && err == nil {
			err = fmt.Errorf("the line has the member %.80q twice", name)
		}
		l.fields[name] = valuesOf(v)
		if v.Type() == fastjson.TypeObject && depth < maxDepth && err == nil {
			err = l.setMembers(name+".", v, depth+1)
		}
	})
	return err
}

// valuesOf returns a value as text, or those of an array.
func valuesOf(v *fastjson.Value) (list []string) {
	switch v.Type() {
	case fastjson.TypeString:
		return []string{string(v.GetStringBytes())}
	case fastjson.TypeNumber, fastjson.TypeTrue, fastjson.TypeFalse:
		return []string{v.String()}
	case fastjson.TypeArray:
		for _, item := range v.GetArray() {
			if item.Type() == fastjson.TypeString {
				list = append(list, string(item.GetStringBytes()))
			}
		}
	}
	return list
}
