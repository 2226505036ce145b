package mcplimit

import (
	"strings"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// own is what the options of this package alone set.
type own struct {
	methods  func(method string) bool // those that are limited; nil: calls of tools
	asResult bool
	mistake  error
}

// callTool is the method that is limited by default.
const callTool = "tools/call"

// check panics if an option is wrong.
func (o *own) check() {
	if o.mistake != nil {
		middleware.RefuseArguments(o.mistake)
	}
}

// limits reports whether requests of a method are limited.
func (o *own) limits(method string) bool {
	if o.methods == nil {
		return method == callTool
	}
	return o.methods(method)
}

// Methods has the middleware limit these methods, such as "tools/list" and
// "resources/read", instead of calls of tools: name "tools/call" to limit these
// too. Methods of your own and notifications can be named. A notification that
// does not pass is dropped, and its sender isn't told. [ByTool] has no key for
// methods other than tools/call: use FirstOf(ByTool(), ByMethod()).
func Methods(names ...string) Option {
	limited := make(map[string]bool, len(names))
	for _, name := range names {
		limited[name] = true
	}
	return func(o *config) {
		o.methods = func(method string) bool { return limited[method] }
		if len(names) == 0 || limited[""] {
			o.mistake = &core.ConfigError{Field: "Methods", Value: strings.Join(names, ", "), Reason: `must be names of methods, such as "tools/call"; AllMethods limits all requests`}
		}
	}
}

// AllMethods has the middleware limit all requests of clients, together if the
// key is the same. Those that only open a connection or keep it alive pass:
// initialize, server/discover, ping, and notifications. A subscription
// (subscriptions/listen) is a request that holds its slot until the client ends
// it.
func AllMethods() Option {
	return func(o *config) {
		o.methods = func(method string) bool {
			switch method {
			case "initialize", "server/discover", "ping":
				return false
			}
			return !strings.HasPrefix(method, "notifications/")
		}
	}
}

// RefuseAsToolResult refuses calls of tools by a result with isError, instead
// of a JSON-RPC error. Clients give it to the language model, which reads in it
// which limit refused the call and when to try again. Other methods are refused
// as before.
func RefuseAsToolResult() Option {
	return func(o *config) { o.asResult = true }
}
