package nethttp

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// Status is the status of one response as the client sees it: the first one
// that was written, whatever the handler did afterwards. Its zero value has no
// status yet. It is not safe for concurrent use.
type Status struct {
	written int
}

// Watch returns w with hooks that note the status. The result implements the
// same optional interfaces as w.
func (s *Status) Watch(w http.ResponseWriter) http.ResponseWriter {
	return wrap(w, httpsnoop.Hooks{
		WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) { s.note(code); write(code) }
		},
		Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) { s.note(http.StatusOK); return write(b) }
		},
		ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(from io.Reader) (int64, error) {
				n, err := read(from)
				if n > 0 { // otherwise nothing was written, and the handler may write another status
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
				if err == nil { // what the handler writes to conn has no status
					s.note(http.StatusOK)
				}
				return conn, rw, err
			}
		},
	})
}

// note keeps the first final status. An informational one, such as 103, is not
// final.
func (s *Status) note(code int) {
	if s.written == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		s.written = code
	}
}

// Written returns the status that was written, or 0.
func (s *Status) Written() int { return s.written }

// Final returns the status after the handler has ended. If none was written, it
// is the 200 that net/http sends for a handler that returned, and 500 for one
// that panicked.
func (s *Status) Final(returned bool) int {
	switch {
	case s.written != 0:
		return s.written
	case returned:
		return http.StatusOK
	}
	return http.StatusInternalServerError
}

// OnSent returns w with hooks that call sent with the response's status: at
// each WriteHeader that ends the header, because middleware can write past its
// framework's response, as echo's Timeout does; and with 200 unless the
// framework has committed its response, before each flush, with which net/http
// sends 200, and when the connection was hijacked, which counts as 200. The
// result implements the same optional interfaces as w.
func OnSent(w http.ResponseWriter, committed func() bool, sent func(status int)) http.ResponseWriter {
	silent200 := func() {
		if !committed() {
			sent(http.StatusOK)
		}
	}
	return wrap(w, httpsnoop.Hooks{
		WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) {
				if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
					sent(status)
				}
				write(status)
			}
		},
		Flush: func(flush httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { silent200(); flush() }
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := hijack()
				if err == nil {
					silent200()
				}
				return conn, rw, err
			}
		},
	})
}
