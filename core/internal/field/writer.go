// Package field writes the header fields of a response with few allocations,
// and checks their names. It is a package because it knows no limits.
package field

import (
	"net/http"
	"strconv"
	"unsafe"
)

// Header is where fields are written: an [net/http.Header], or a framework's
// own type.
type Header = interface {
	Get(name string) string
	Set(name, value string)
	Add(name, value string)
}

// Room is memory for the header fields of one response, enough for the default
// style and one limit with a short name. Middleware puts it into something that
// it allocates for each request anyway. The response points into the room and
// may outlive the request, so a room must never be used twice.
type Room struct {
	values [5]string
	text   [48]byte
}

// Writer writes the header fields of one response. The values of a response are
// its own: whoever changes one in place changes no other response. Names must
// be in canonical form.
type Writer struct {
	to     Header
	header http.Header // to, if it is one; then the map is used directly
	values []string    // that header points to
	text   []byte      // that values point to
}

// To returns a Writer to a response. What does not fit into room is allocated.
func To(to Header, room *Room) Writer {
	w := Writer{to: to, values: room.values[:0], text: room.text[:0]}
	w.header, _ = to.(http.Header)
	return w
}

// Get returns the first value that is set already, or "".
func (w *Writer) Get(name string) string {
	if w.header == nil {
		return w.to.Get(name)
	}
	if values := w.header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set sets a field.
func (w *Writer) Set(name, value string) {
	if w.header == nil {
		w.to.Set(name, value)
		return
	}
	w.values = append(w.values, value)
	n := len(w.values)
	w.header[name] = w.values[n-1 : n : n] // without capacity: whoever appends to it gets a copy
}

// Add adds a value to a field that is a list.
func (w *Writer) Add(name, value string) {
	if w.header == nil {
		w.to.Add(name, value)
	} else if before := w.header[name]; len(before) > 0 {
		w.header[name] = append(before, value)
	} else {
		w.Set(name, value)
	}
}

// SetInt sets a field to a number.
func (w *Writer) SetInt(name string, value int64) {
	b := w.Text()
	w.Set(name, w.Append(b, strconv.AppendInt(b, value, 10)))
}

// Text returns the text so far, for the caller to append a value, and to pass
// both to Append.
func (w *Writer) Text() []byte { return w.text }

// Append returns what was appended to before, which Text returned. It makes no
// copy, as [strings.Builder] makes none: bytes of the text are only appended,
// and never change afterwards.
func (w *Writer) Append(before, text []byte) string {
	w.text = text
	b := text[len(before):]
	return unsafe.String(unsafe.SliceData(b), len(b))
}
