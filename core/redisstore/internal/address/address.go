// Package address has the addresses of a client's servers, for messages.
package address

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// sentinel is what go-redis has for the address of a client that asks Sentinel.
const sentinel = "FailoverClient"

// Of returns the address of client's server, such as "redis://localhost:6379",
// "rediss://…" with TLS, or "unix:///run/redis.sock". Of a Cluster or a Ring it
// returns all that the client was given. It is "" if that is not known. It has
// no user or password.
func Of(client redis.UniversalClient) string {
	if v := reflect.ValueOf(client); v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		switch {
		case AsksSentinel(c):
			return "the master that Sentinel names"
		case o.Network == "unix":
			return "unix://" + o.Addr
		}
		return scheme(o.TLSConfig) + o.Addr
	case *redis.ClusterClient:
		o := c.Options()
		return scheme(o.TLSConfig) + strings.Join(o.Addrs, ",")
	case *redis.Ring:
		o := c.Options()
		return scheme(o.TLSConfig) + strings.Join(slices.Sorted(maps.Values(o.Addrs)), ",")
	}
	return ""
}

// AsksSentinel reports whether client finds its server by asking Sentinel.
func AsksSentinel(client redis.UniversalClient) bool {
	c, ok := client.(*redis.Client)
	return ok && c != nil && c.Options().Addr == sentinel
}

// Master returns the address of the master that Sentinel names now, or "" if it
// does not say. It opens a connection as client does, and closes it: go-redis
// shows the address nowhere else. A master that can't be reached has its
// address in the error.
func Master(ctx context.Context, client *redis.Client) string {
	o := client.Options()
	conn, err := o.Dialer(ctx, o.Network, o.Addr)
	if err == nil {
		defer conn.Close()
		return scheme(o.TLSConfig) + conn.RemoteAddr().String()
	}
	if op, ok := err.(*net.OpError); ok && op.Addr != nil { //nolint:errorlint // wrapped, it is of a connection to Sentinel
		return scheme(o.TLSConfig) + op.Addr.String()
	}
	return ""
}

func scheme(config *tls.Config) string {
	if config != nil {
		return "rediss://"
	}
	return "redis://"
}
