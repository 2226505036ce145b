package replay

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/accesslog"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/httplimit"
)

// keyFunc returns the key of a request. Keys are made by the library's own key
// functions, of what the log has of the request.
type keyFunc func(*accesslog.Line) (string, error)

// parseKey reads key functions that are joined by +, such as ip+path. ByIP is
// the function of ip.
func parseKey(text string, byIP keyFunc) (keyFunc, error) {
	var parts []keyFunc
	for name := range strings.SplitSeq(text, "+") {
		part, err := parsePart(name, byIP)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return middleware.Join[*accesslog.Line](parts...), nil
}

func parsePart(name string, byIP keyFunc) (keyFunc, error) {
	header, isHeader := strings.CutPrefix(name, "header:")
	switch {
	case name == "":
		return nil, errors.New("--key needs ip, path, method, header:NAME or a field of the log")
	case isHeader:
		return byHeader(header)
	case name == "ip":
		return byIP, nil
	case name == "path":
		byPath := httplimit.ByPath()
		return func(l *accesslog.Line) (string, error) {
			u, err := target(l)
			if err != nil {
				return "", err
			}
			return byPath(&http.Request{URL: u})
		}, nil
	case name == "method":
		byMethod := httplimit.ByMethod()
		return func(l *accesslog.Line) (string, error) {
			method, err := valueOf(l, "method")
			if err != nil {
				return "", err
			}
			return byMethod(&http.Request{Method: method})
		}, nil
	}
	return func(l *accesslog.Line) (string, error) {
		value, err := valueOf(l, name)
		return core.JoinKey(name, value), err
	}, nil
}

// byHeader returns the key function of a header field NAME, whose value is in
// the field of the log that nginx, Caddy or Traefik write it to. NAME=FIELD
// names another one.
func byHeader(text string) (keyFunc, error) {
	name, field, given := strings.Cut(text, "=")
	byHeader := httplimit.ByHeader(name)
	if _, err := byHeader(&http.Request{}); errors.As(err, new(*core.ConfigError)) {
		return nil, fmt.Errorf("--key header:%s: %w", name, err)
	}
	name = http.CanonicalHeaderKey(name)
	variable := "http_" + strings.ReplaceAll(strings.ToLower(name), "-", "_")
	fields := []string{variable, "request.headers." + name, "request_" + name}
	if given {
		fields = []string{field}
	}
	return func(l *accesslog.Line) (string, error) {
		values, _ := l.Values(fields...)
		if len(values) == 0 {
			return "", fmt.Errorf("the line has no %s", fields[0])
		}
		return byHeader(&http.Request{Header: http.Header{name: values}, Host: values[0]})
	}, nil
}

func valueOf(l *accesslog.Line, field string) (string, error) {
	value := l.Value(field)
	if value == "" {
		return "", fmt.Errorf("the line has no %s", field)
	}
	return value, nil
}

// target returns the URL of a request as net/http parses it.
func target(l *accesslog.Line) (*url.URL, error) {
	text, err := valueOf(l, "target")
	if err != nil {
		return nil, err
	}
	if l.Value("method") == http.MethodConnect && text[0] != '/' { // it has a host and a port alone
		text = "http://" + text
	}
	u, err := url.ParseRequestURI(text)
	if err != nil || strings.Contains(text, " ") {
		return nil, errors.New("the target of the request is not a URL")
	}
	return u, nil
}

// Names of fields, by the servers that write them. Client fields have what the
// server has found out, by its own list of proxies.
var (
	clientFields    = []string{"request.client_ip", "client_ip"}
	peerFields      = []string{"remote_addr", "request.remote_ip", "remote_ip", "ClientHost", "ClientAddr", "ip", "clientip"}
	clientFirst     = slices.Concat(clientFields, peerFields)
	peerFirst       = slices.Concat(peerFields, clientFields)
	forwardedFields = []string{"http_x_forwarded_for", "request.headers.X-Forwarded-For", "request_X-Forwarded-For", "x_forwarded_for"}
)

// UnknownClientError means that a log does not say who its clients are, unless
// the proxies are named.
type UnknownClientError struct{ Addresses string }

func (e *UnknownClientError) Error() string {
	return fmt.Sprintf("%.200q are several addresses, and the log does not say which one is the client's: name your proxies with --trust", e.Addresses)
}

// addresses makes the keys of a service that limits by ByIP.
type addresses struct {
	byIP     httplimit.KeyFunc
	trusting bool // proxies were named
	ignored  bool // there was an X-Forwarded-For, and no proxy was named
}

func newAddresses(proxies []string) (*addresses, error) {
	a := &addresses{httplimit.ByIP(core.TrustProxies(proxies...)), len(proxies) > 0, false}
	if _, err := a.byIP(&http.Request{RemoteAddr: "192.0.2.1:0"}); err != nil {
		return nil, fmt.Errorf("--trust: %w", err)
	}
	return a, nil
}

// nobody is an address that no client has. ByIP returns it only if it trusts
// the peer.
const nobody = "0.0.0.0"

// key returns the key that ByIP returns for a request. A line has the address
// of the peer, what the peer has sent as X-Forwarded-For, or both in one list
// with the peer at its end.
func (a *addresses) key(l *accesslog.Line) (string, error) {
	forwarded, known := l.Values(forwardedFields...)
	if _, has := l.Values("request.headers"); has { // Caddy writes all that came
		known = true
	}
	fields := clientFirst
	if a.trusting && known {
		fields = peerFirst
	}
	values, _ := l.Values(fields...)
	peer := strings.Join(values, ",")
	if end := strings.LastIndexByte(peer, ','); end >= 0 {
		if !a.trusting {
			return "", &UnknownClientError{peer}
		}
		forwarded, known = []string{peer[:end]}, true
		peer = peer[end+1:]
	}
	remote, err := remoteAddr(strings.TrimSpace(peer))
	if err != nil {
		return "", err
	}
	if !a.trusting {
		found, _ := l.Values(clientFields...)
		a.ignored = a.ignored || len(forwarded) > 0 && len(found) == 0
		return a.byIP(&http.Request{RemoteAddr: remote})
	}
	if !known {
		forwarded = []string{nobody}
	}
	key, err := a.byIP(&http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": forwarded}})
	if key == "ip:"+nobody {
		return "", fmt.Errorf("%.80q is a proxy, and the line has no X-Forwarded-For that says whose request it is", peer)
	}
	return key, err
}

// remoteAddr returns an address as net/http has that of a peer.
func remoteAddr(address string) (string, error) {
	if address == "" {
		return "", errors.New("the line has no address")
	}
	if address == "unix:" { // as nginx writes the peer on a Unix socket
		return "@", nil
	}
	addr, ok := accesslog.ParseAddr(address)
	if !ok {
		return "", fmt.Errorf("%.80q is not an IP address", address)
	}
	return netip.AddrPortFrom(addr, 0).String(), nil
}
