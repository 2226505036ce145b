package core

import (
	"net/http"
	"strconv"
)

// maxFields is how many header fields one decision writes at most: those of HeadersDraft6 and HeadersLegacy
// together, when it denies.
const maxFields = 9

// HeaderWriter is what response headers are written to: an [net/http.Header], or any framework's.
type HeaderWriter interface {
	Get(name string) string
	Set(name, value string)
	Add(name, value string)
}

// fields gathers the header fields of one response, so that all values that are made for it are made in one
// string and one slice. The bytes of the former are the caller's, who can keep them on its stack.
type fields struct {
	to     HeaderWriter
	header http.Header // to, when it is one: it need not be asked by name then
	list   [maxFields]field
	n      int
}

type field struct {
	name     string
	value    string // when it is not made for this response
	from, to int    // else where it is, in the bytes
	list     bool   // its values are added to, not replaced
}

// get returns what to holds already; name is in canonical form.
func (f *fields) get(name string) string {
	if f.header == nil {
		return f.to.Get(name)
	}
	if values := f.header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// next is the field to be filled in, with a name in canonical form.
func (f *fields) next(name string) *field {
	v := &f.list[f.n]
	f.n++
	v.name = name
	return v
}

// set sets a field to a value that is not made for this response.
func (f *fields) set(name, value string) { f.next(name).value = value }

// add adds such a value to a list.
func (f *fields) add(name, value string) {
	v := f.next(name)
	v.value, v.list = value, true
}

// setInt sets a field to a number, whose digits it appends to b.
func (f *fields) setInt(b []byte, name string, value int64) []byte {
	v := f.next(name)
	v.from = len(b)
	b = strconv.AppendInt(b, value, 10)
	v.to = len(b)
	return b
}

// write writes the fields; b has the values that were made.
func (f *fields) write(b []byte) {
	if f.n == 0 {
		return
	}
	text := string(b)
	list := f.list[:f.n]
	for i := range list {
		if v := &list[i]; v.value == "" {
			v.value = text[v.from:v.to]
		}
	}
	if f.header == nil {
		for i := range list {
			if v := &list[i]; v.list {
				f.to.Add(v.name, v.value)
			} else {
				f.to.Set(v.name, v.value)
			}
		}
		return
	}
	values := make([]string, len(list))
	for i := range list {
		v := &list[i]
		values[i] = v.value
		if v.list {
			if before := f.header[v.name]; len(before) > 0 {
				f.header[v.name] = append(before, v.value)
				continue
			}
		}
		f.header[v.name] = values[i : i+1 : i+1]
	}
}
