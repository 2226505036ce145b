package nethttp

import (
	"net/http"

	"github.com/felixge/httpsnoop"
)

// wrap returns w with hooks. In JavaScript there are no connections to hijack
// and no files to send, so of the optional interfaces http.Flusher alone is
// kept. httpsnoop has a type for each of their combinations, and the linker
// can't leave out any: they are a tenth of a program.
func wrap(w http.ResponseWriter, hooks httpsnoop.Hooks) http.ResponseWriter {
	x := hooked{ResponseWriter: w, header: w.WriteHeader, write: w.Write}
	if hooks.WriteHeader != nil {
		x.header = hooks.WriteHeader(x.header)
	}
	if hooks.Write != nil {
		x.write = hooks.Write(x.write)
	}
	f, ok := w.(http.Flusher)
	if !ok {
		return &x
	}
	y := hookedFlusher{hooked: x, flush: f.Flush}
	if hooks.Flush != nil {
		y.flush = hooks.Flush(y.flush)
	}
	return &y
}

// hooked is a response whose methods are hooks.
type hooked struct {
	http.ResponseWriter
	header func(status int)
	write  func([]byte) (int, error)
}

func (x *hooked) WriteHeader(status int)      { x.header(status) }
func (x *hooked) Write(b []byte) (int, error) { return x.write(b) }
func (x *hooked) Unwrap() http.ResponseWriter { return x.ResponseWriter }

type hookedFlusher struct {
	hooked
	flush func()
}

func (x *hookedFlusher) Flush() { x.flush() }
