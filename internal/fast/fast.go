// Package fast is what the adapters for frameworks on fasthttp share.
package fast

import (
	"net"
	"strings"

	"github.com/valyala/fasthttp"
)

// Owned copies what key returns: fasthttp's strings are views of a buffer that the next request on the
// connection overwrites, and a store may keep a key for longer.
func Owned[C any, K ~func(C) (string, error)](key K) func(C) (string, error) {
	if key == nil {
		return nil
	}
	return func(c C) (string, error) {
		k, err := key(c)
		return strings.Clone(k), err
	}
}

// RemoteAddr is the address of the connection's peer.
func RemoteAddr(c *fasthttp.RequestCtx) string {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().String() // the port is of no use, and dear to print
	}
	return c.RemoteAddr().String()
}

// ContentLength is -1 for a chunked body, as the engine has it; fasthttp's -2 is no body.
func ContentLength(c *fasthttp.RequestCtx) int64 {
	length := c.Request.Header.ContentLength()
	if length < -1 {
		length = 0
	}
	return int64(length)
}

// Header returns copies of a request header field's values.
func Header(c *fasthttp.RequestCtx, name string) []string {
	fields := c.Request.Header.PeekAll(name)
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = string(f)
	}
	return values
}

// ResponseHeader writes response header fields.
type ResponseHeader struct{ *fasthttp.ResponseHeader }

// Get returns the value of a field that was set.
func (h ResponseHeader) Get(name string) string { return string(h.Peek(name)) }
