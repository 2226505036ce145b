// Package keyof makes, by hand, the keys that the adapters' extractors return:
// for [core.Policy].Overrides, [core.Limiter.Reset] and Peek, and for the tools
// of operators. Its functions have the extractors' names. It is a package because
// it calls the extractors of package adapter, which imports core.
//
//	key, err := keyof.Header("X-Api-Key", "k-123") // as ByHeader("X-Api-Key") returns it for that client
//	...
//	err = limiter.Reset(ctx, key)
//
// An error is that of the extractor: [core.ErrNoKey] for an empty value, and a
// [core.ConfigError] for a name that can't be one.
//
// See [docs/operations.md].
//
// [docs/operations.md]: https://github.com/tokenbucket-go/ratelimit/blob/main/docs/operations.md
package keyof

import (
	"net/netip"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/adapter"
	"github.com/tokenbucket-go/ratelimit/core/middleware"
)

// client is a request that has what an extractor reads, and nothing else.
type client struct {
	adapter.Request // for the methods that no extractor calls; nil

	value string
	addr  netip.Addr
}

func (c client) Header(string) []string           { return []string{c.value} }
func (c client) Cookie(string) string             { return c.value }
func (c client) Query(string) string              { return c.value }
func (c client) Param(string) string              { return c.value }
func (c client) Method() string                   { return c.value }
func (c client) Path() string                     { return c.value }
func (c client) Route() (string, bool)            { return c.value, true }
func (c client) RemoteIP() netip.Addr             { return c.addr }
func (c client) SetDecision(*middleware.Decision) {}
func (c client) Decision() *middleware.Decision   { return nil }

func of(key adapter.KeyFunc, value string) (string, error) {
	if err := middleware.ArgumentError[adapter.Request, string](key); err != nil {
		return "", err
	}
	return key(client{value: value})
}

// IP is the key that ByIP returns for a client's address: "ip:192.0.2.1", or
// for IPv6 its network, such as "ip:2001:db8::/64". Of the options only
// [core.IPv6Prefix] matters.
func IP(address string, options ...core.IPOption) (string, error) {
	key := adapter.ByIP(options...)
	if err := middleware.ArgumentError[adapter.Request, string](key); err != nil {
		return "", err
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return "", &core.ConfigError{Field: "keyof.IP address", Value: address, Reason: "must be an IP address, such as 192.0.2.1 or 2001:db8::1"}
	}
	return key(plain{client{addr: addr}})
}

// plain is a client without header fields.
type plain struct{ client }

func (plain) Header(string) []string { return nil }

// Header is the key that ByHeader(name) returns for a value.
func Header(name, value string) (string, error) { return of(adapter.ByHeader(name), value) }

// Cookie is the key that ByCookie(name) returns for a value.
func Cookie(name, value string) (string, error) { return of(adapter.ByCookie(name), value) }

// Query is the key that ByQuery(name) returns for a value.
func Query(name, value string) (string, error) { return of(adapter.ByQuery(name), value) }

// Param is the key that ByParam(name) returns for a value.
func Param(name, value string) (string, error) { return of(adapter.ByParam(name), value) }

// Method is the key that ByMethod returns.
func Method(method string) (string, error) { return of(adapter.ByMethod(), method) }

// Path is the key that ByPath returns.
func Path(path string) (string, error) { return of(adapter.ByPath(), path) }

// Route is the key that ByRoute returns for a pattern. It leaves out the method
// of a pattern such as "GET /items/{id}", as ByRoute does.
func Route(pattern string) (string, error) {
	return of(adapter.ByRoute(""), adapter.WithoutMethod(pattern))
}

// ContextValue is the key that ByContextValue(key) returns for a value.
func ContextValue(key, value any) (string, error) {
	extract := adapter.ByContextValue(key)
	if err := middleware.ArgumentError[adapter.Request, string](extract); err != nil {
		return "", err
	}
	return extract(inContext{value: value})
}

// Value is the key that ByContextValue returns for a value, by the name that
// its keys have: that of a string is the string, as in ByContextValue("user"),
// and that of a type of your own is its name and value, such as "main.userKey
// {}".
func Value(name, value string) (string, error) { return ContextValue(name, value) }

// inContext is a request whose context has a value.
type inContext struct {
	client

	value any
}

func (c inContext) Value(any) any { return c.value }

// Global is the key that Global(name) returns.
func Global(name string) (string, error) { return of(adapter.Global(name), "") }

// Join is the key that Join returns for keys.
func Join(keys ...string) string { return core.JoinKey(keys...) }
