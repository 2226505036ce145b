// Package fast is what the adapters for frameworks on fasthttp share.
package fast

import (
	"net"
	"net/url"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core/adapter"
)

// Owned copies what key returns: fasthttp's strings are views of a buffer that the next request on the
// connection overwrites, and a store may keep a key for longer.
func Owned[C any, K ~func(C) (string, error)](key K) func(C) (string, error) {
	if key == nil || adapter.Mistake[C, string](key) != nil {
		return key
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

// Header returns copies of a request header field's values. Host is the one that the request is for: of a
// request line with a whole URL that URL's (RFC 9112, 3.2.2), whatever the field says.
//
// asSent says that the app has names kept as they are sent: then fields are found under any spelling, and no
// client can hide one behind another.
func Header(c *fasthttp.RequestCtx, name string, asSent bool) (values []string) {
	if name == "Host" {
		if host := c.Host(); len(host) > 0 {
			values = append(values, string(host))
		}
		return values
	}
	if asSent {
		for sent, value := range c.Request.Header.All() {
			if strings.EqualFold(string(sent), name) {
				values = append(values, string(value))
			}
		}
		return values
	}
	for _, field := range c.Request.Header.PeekAll(name) {
		values = append(values, string(field))
	}
	return values
}

// Path is the path as requested, percent-decoded, as net/http has it.
func Path(c *fasthttp.RequestCtx) string {
	sent := string(c.URI().PathOriginal())
	if path, err := url.PathUnescape(sent); err == nil {
		return path
	}
	return sent
}

// DecodeParam is a parameter of the route, percent-decoded. decoded says that the app has its paths decoded before they
// are matched.
func DecodeParam(sent string, decoded bool) string {
	if !decoded && strings.IndexByte(sent, '%') >= 0 {
		if value, err := url.PathUnescape(sent); err == nil {
			return value
		}
	}
	return sent
}

// ResponseHeader writes response header fields.
type ResponseHeader struct{ *fasthttp.ResponseHeader }

// Get returns the value of a field that was set.
func (h ResponseHeader) Get(name string) string { return string(h.Peek(name)) }
