package core

import (
	"net/http"
	"strconv"
	"unsafe"
)

// HeaderWriter writes response headers: an [net/http.Header], or a framework's own type.
type HeaderWriter interface {
	Get(name string) string
	Set(name, value string)
	Add(name, value string)
}

// FieldRoom is memory for the header fields of one response, enough for the default style and one limit with a short
// name. Middleware puts it into something that it allocates for each request anyway: see [Result.WriteHeadersIn]. The
// response points into the room and may outlive the request, so a room must never be used twice.
type FieldRoom struct {
	values [5]string
	text   [48]byte
}

// fieldWriter writes the header fields of one response. The values of a response are its own: whoever changes one in
// place changes no other response.
type fieldWriter struct {
	to     HeaderWriter
	header http.Header // to, if it is one; then the map is used directly
	values []string    // that header points to
	text   []byte      // that values point to
}

// get returns the first value that is set already, or "". name must be in canonical form.
func (w *fieldWriter) get(name string) string {
	if w.header == nil {
		return w.to.Get(name)
	}
	if values := w.header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// set sets a field. name must be in canonical form.
func (w *fieldWriter) set(name, value string) {
	if w.header == nil {
		w.to.Set(name, value)
		return
	}
	w.values = append(w.values, value)
	n := len(w.values)
	w.header[name] = w.values[n-1 : n : n] // without capacity: whoever appends to it gets a copy
}

// add adds a value to a field that is a list.
func (w *fieldWriter) add(name, value string) {
	if w.header == nil {
		w.to.Add(name, value)
	} else if before := w.header[name]; len(before) > 0 {
		w.header[name] = append(before, value)
	} else {
		w.set(name, value)
	}
}

// setInt sets a field to a number.
func (w *fieldWriter) setInt(name string, value int64) {
	from := len(w.text)
	w.text = strconv.AppendInt(w.text, value, 10)
	w.set(name, w.since(from))
}

// since returns the text from a position on, without a copy, as [strings.Builder] does: bytes of w.text are only
// appended, and never change afterwards.
func (w *fieldWriter) since(from int) string {
	b := w.text[from:]
	return unsafe.String(unsafe.SliceData(b), len(b))
}
