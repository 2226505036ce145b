// Package address has the addresses of a client's servers, for messages.
package address

import (
	"crypto/tls"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// sentinel is what go-redis has for the address of a client that asks Sentinel.
const sentinel = "FailoverClient"

// Of returns the address of client's server, such as "redis://localhost:6379", "rediss://…" with TLS, or "unix:///run/redis.sock".
// Of a Cluster or a Ring it returns all that the client was given. It is "" if that is not known. It has no user or password.
func Of(client redis.UniversalClient) string {
	if v := reflect.ValueOf(client); v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		switch {
		case o.Addr == sentinel:
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

func scheme(config *tls.Config) string {
	if config != nil {
		return "rediss://"
	}
	return "redis://"
}
