package core

import (
	"net/http"
	"strconv"
)

// maxFields is how many header fields one decision writes at most: a denial with HeadersDraft6 and HeadersLegacy.
const maxFields = 9

// HeaderWriter writes response headers: an [net/http.Header], or a framework's own type.
type HeaderWriter interface {
	Get(name string) string
	Set(name, value string)
	Add(name, value string)
}

// headerFields collects the header fields of one response. All values built for that response share one string and
// one slice. The caller holds the bytes being built, so they can stay on its stack. Measured, of the default style into an
// empty http.Header: 2 allocations, with Set and Add for each field 9, in 750 ns instead of 850 to 1,080.
type headerFields struct {
	to     HeaderWriter
	header http.Header // to, if it is one; get and write then use the map directly
	list   [maxFields]headerField
	n      int
}

type headerField struct {
	name     string
	value    string // "" if the value is built for this response
	from, to int    // where the built value is, in the caller's bytes
	list     bool   // add to the values that exist instead of replacing them
}

// get returns the first value that to already holds, or "". name must be in canonical form.
func (f *headerFields) get(name string) string {
	if f.header == nil {
		return f.to.Get(name)
	}
	if values := f.header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// next appends a field and returns it for the caller to fill in. name must be in canonical form.
func (f *headerFields) next(name string) *headerField {
	v := &f.list[f.n]
	f.n++
	v.name = name
	return v
}

// set sets a field to a value that exists already.
func (f *headerFields) set(name, value string) { f.next(name).value = value }

// add adds a value that exists already to a list field.
func (f *headerFields) add(name, value string) {
	v := f.next(name)
	v.value, v.list = value, true
}

// setInt sets a field to a number. It appends the digits to b and returns b.
func (f *headerFields) setInt(b []byte, name string, value int64) []byte {
	v := f.next(name)
	v.from = len(b)
	b = strconv.AppendInt(b, value, 10)
	v.to = len(b)
	return b
}

// write writes all fields to f.to. b holds the values that were built.
func (f *headerFields) write(b []byte) {
	if f.n == 0 {
		return
	}
	text := string(b) // the one string that all built values share
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
	values := make([]string, len(list)) // the one slice that all fields of one value share
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
