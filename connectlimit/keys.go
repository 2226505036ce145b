package connectlimit

import (
	"fmt"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
	"github.com/tokenbucket-go/ratelimit/core/middleware/rpc"
)

// KeyFunc returns the key of a call: who or what is limited. Without a key it returns [core.ErrNoKey]. That and an empty key are
// answered with invalid_argument. A [connect.Error] with a code of the client, such as unauthenticated, is answered as it is, and any
// other error with internal. Begin a key of your own with its kind: core.JoinKey("user", id).
type KeyFunc func(*Call) (string, error)

// ByPeer limits by the client's address. It is the address of the connection's peer, or the one that a trusted proxy reports in a header
// field, such as X-Forwarded-For: see [core.TrustProxies]. IPv6 addresses are grouped by /64. The keys are those of ByIP for HTTP.
func ByPeer(options ...core.IPOption) KeyFunc { return adapt(adapter.ByIP(options...)) }

// ByHeader limits by a header field of the request, such as an API key. If the field came several times with different values, the
// answer is invalid_argument. See [adapter.ByHeader].
func ByHeader(name string) KeyFunc { return adapt(adapter.ByHeader(name)) }

// ByMethod limits by the procedure, such as /files.v1.Files/Read.
func ByMethod() KeyFunc {
	return func(c *Call) (string, error) { return core.JoinKey("method", c.Procedure), nil }
}

// ByService limits by the service, such as files.v1.Files, all procedures together.
func ByService() KeyFunc {
	return func(c *Call) (string, error) {
		service := rpc.Service(c.Procedure)
		if service == "" {
			return "", fmt.Errorf("%w: no service in the procedure %q", core.ErrNoKey, c.Procedure)
		}
		return core.JoinKey("service", service), nil
	}
}

// ByContextValue limits by a value that an earlier interceptor left in the call's context: a string, an integer or another
// fmt.Stringer. See [adapter.ByContextValue].
func ByContextValue(key any) KeyFunc { return adapt(adapter.ByContextValue(key)) }

// Global limits all calls together. name is the name of their bucket.
func Global(name string) KeyFunc { return adapt(adapter.Global(name)) }

// Join limits by several keys together. Different keys never become the same one. See [middleware.Join].
func Join(keys ...KeyFunc) KeyFunc { return middleware.Join[*Call](keys...) }

// FirstOf limits by the first key that is not missing. See [middleware.FirstOf].
func FirstOf(keys ...KeyFunc) KeyFunc { return middleware.FirstOf[*Call](keys...) }

// HealthAndReflection reports whether a call is of the services of health checks or reflection, for [WithSkip].
func HealthAndReflection(c *Call) bool { return rpc.HealthOrReflection(c.Procedure) }

func adapt(key adapter.KeyFunc) KeyFunc {
	return adapter.Adapt(key, asRequest)
}
