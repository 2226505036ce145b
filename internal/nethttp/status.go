package nethttp

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// Status is the status of one response, as the client sees it: the first that was written, whatever became
// of its handler afterwards. Its zero value has none yet. It is for the goroutine of the handler.
type Status struct{ written int }

// Watch returns w with hooks that note the status. It implements what w does.
func (s *Status) Watch(w http.ResponseWriter) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) { s.note(code); write(code) }
		},
		Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) { s.note(http.StatusOK); return write(b) }
		},
		ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(from io.Reader) (int64, error) {
				n, err := read(from)
				if n > 0 { // else nothing is written, and the handler may yet answer otherwise
					s.note(http.StatusOK)
				}
				return n, err
			}
		},
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { s.note(http.StatusOK); flush() }
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := hijack()
				if err == nil { // what is written now is not HTTP's to know
					s.note(http.StatusOK)
				}
				return conn, rw, err
			}
		},
	})
}

// note keeps the first status that is an answer: 103 is none yet.
func (s *Status) note(code int) {
	if s.written == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		s.written = code
	}
}

// Final is the status when the handler has ended: what was written, or net/http's own 200 of a handler that
// returned, or 500 of one that panicked, which somebody in front answers.
func (s *Status) Final(returned bool) int {
	switch {
	case s.written != 0:
		return s.written
	case returned:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// OnFlush returns w, which calls flushed before each flush. It implements what w does.
func OnFlush(w http.ResponseWriter, flushed func()) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { flushed(); flush() }
		},
	})
}
