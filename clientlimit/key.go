package clientlimit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
)

// KeyFunc returns the key of a request: requests with the same key share their
// limits. Begin a key of your own with its kind: core.JoinKey("account", id).
// An error, or an empty key, is that of the request, which is not sent.
type KeyFunc func(*http.Request) (string, error)

// ByHost limits by the host that a request goes to, and its port if that is not
// the usual one of its scheme: host:api.example.com, or host:localhost%3A8080.
func ByHost() KeyFunc {
	return func(r *http.Request) (string, error) {
		if r.URL == nil || r.URL.Host == "" {
			return "", fmt.Errorf("%w: it has no host", core.ErrNoKey)
		}
		host, port := strings.ToLower(strings.TrimSuffix(r.URL.Hostname(), ".")), r.URL.Port()
		if port != "" && port != usualPorts[r.URL.Scheme] {
			host = net.JoinHostPort(host, port)
		}
		return core.JoinKey("host", host), nil
	}
}

var usualPorts = map[string]string{"http": "80", "https": "443"}

// ByHeader limits by the host and a header field of the request, such as the
// API key with which it comes. The field's value can be a secret: the key has a
// hash of it. ByHeader panics with a [core.ConfigError] if no field can have
// the name.
func ByHeader(name string) KeyFunc {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' }) {
		panicWith(&core.ConfigError{
			Field: "clientlimit.ByHeader", Value: name, Reason: `must be the name of a header field, such as "Authorization"`,
		})
	}
	byHost := ByHost()
	return func(r *http.Request) (string, error) {
		host, err := byHost(r)
		if err != nil {
			return "", err
		}
		value := r.Header.Get(name)
		if value == "" {
			return "", fmt.Errorf("%w: it has no field %s", core.ErrNoKey, http.CanonicalHeaderKey(name))
		}
		hash := sha256.Sum256([]byte(value))
		return host + ":" + core.JoinKey(strings.ToLower(name), hex.EncodeToString(hash[:8])), nil
	}
}

// keyOf returns the key of a request.
func (c *config) keyOf(r *http.Request) (string, error) {
	key, err := c.key(r)
	if err == nil && key == "" {
		err = fmt.Errorf("%w: it is empty", core.ErrNoKey)
	}
	return key, err
}
