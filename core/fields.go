package core

import (
	"net/http"
	"strconv"
)

// maxFields is how many header fields one decision writes at most: those of HeadersDraft6 and HeadersLegacy
// together, when it denies.
const maxFields = 9

// fields gathers header fields, so that all values are made in one string and one slice: every
// response carries several.
type fields struct {
	b    []byte
	list [maxFields]field
	n    int
}

type field struct {
	name     string
	from, to int  // the value, in fields.b
	list     bool // its values are added to, not replaced
}

func (f *fields) begin(name string, list bool) {
	if f.b == nil {
		f.b = make([]byte, 0, 192)
	}
	f.list[f.n] = field{name: name, from: len(f.b), list: list}
}

func (f *fields) end() {
	f.list[f.n].to = len(f.b)
	f.n++
}

func (f *fields) set(name string, value int64) {
	f.begin(name, false)
	f.b = strconv.AppendInt(f.b, value, 10)
	f.end()
}

func (f *fields) add(name, value string) {
	f.begin(name, name == policyField)
	f.b = append(f.b, value...)
	f.end()
}

// writeTo writes the fields to h.
func (f *fields) writeTo(h HeaderWriter) {
	if f.n == 0 {
		return
	}
	text := string(f.b)
	header, ok := h.(http.Header)
	if !ok {
		for _, v := range f.list[:f.n] {
			if v.list {
				h.Add(v.name, text[v.from:v.to])
			} else {
				h.Set(v.name, text[v.from:v.to])
			}
		}
		return
	}
	// The names are in canonical form, so they are the map's keys.
	values := make([]string, f.n)
	for i, v := range f.list[:f.n] {
		values[i] = text[v.from:v.to]
		if before := header[v.name]; v.list && len(before) > 0 {
			header[v.name] = append(before, values[i])
		} else {
			header[v.name] = values[i : i+1 : i+1]
		}
	}
}
