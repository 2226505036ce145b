package redisstore

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
)

// This file reads addresses of servers. What it refuses may be a password at
// the wrong place, so no message shows any part of it.

// Why a URL is refused, and what to write instead.
const (
	urlForms = "write redis://user:password@host:6379/0, rediss://… for TLS, or unix:///path/of/socket"
	escaped  = "characters such as / ? # @ % are percent-encoded in a user and a password: %2F %3F %23 %40 %25"

	noURL     = "must be a URL, not host and port alone: " + urlForms
	badScheme = "must begin with redis://, rediss:// or unix://: " + urlForms +
		"; for Sentinel or a Cluster give redisstore.New a client"
	hasSpace     = "must have no spaces and no control characters: " + urlForms
	severalHosts = "must name one server, redis://host:6379: for a Cluster write redisstore.New(redis.NewClusterClient(" +
		`&redis.ClusterOptions{Addrs: []string{"n1:6379", "n2:6379"}})), for Sentinel with redis.NewFailoverClient; ` +
		escaped + ", and a comma %2C"
	badParts = "must have a host, and a port up to 65535, " +
		"as in redis://user:password@host:6379/0 or redis://[::1]:6379: " + escaped
	badSocket   = "must have the socket's whole path behind three slashes: unix:///path/of/socket"
	badDatabase = "must end with the number of a database, as in redis://host:6379/0: " + escaped
	badOption   = "must have options that go-redis knows, with values that it can read, " +
		"as in redis://host:6379/0?dial_timeout=2s&pool_size=20; a password is none: redis://:password@host:6379/0"
	badAddr = "must have host:port for each address, such as localhost:6379: " +
		"a URL is for redisstore.Open, and a password for the client's Password"
)

// ParseURL returns the options of the client that [Open] makes for a URL, but
// for the DialTimeout. It is for programs that change some of them, such as the
// certificates of TLS, and give [New] the client:
//
//	options, err := redisstore.ParseURL(os.Getenv("REDIS_URL"))
//	…
//	options.TLSConfig.RootCAs = ours
//	store := redisstore.New(redis.NewClient(options))
//
// It reads a URL as [redis.ParseURL] does, and refuses what that takes for
// another server, such as "redis:7401" for localhost:6379 and
// "redis://n1:6379,n2:6379" for a host with a comma in its name. The error is a
// core.ConfigError, which shows no part of the URL.
func ParseURL(address string) (*redis.Options, error) {
	scheme, rest, found := strings.Cut(address, "://")
	scheme = strings.ToLower(scheme)
	switch {
	case strings.ContainsFunc(address, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return nil, badURL(hasSpace)
	case !found:
		return nil, badURL(noURL)
	case !slices.Contains([]string{"redis", "rediss", "unix"}, scheme):
		return nil, badURL(badScheme)
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if _, hosts, found := strings.Cut(rest, "@"); strings.Contains(hosts, ",") || !found && strings.Contains(rest, ",") {
		return nil, badURL(severalHosts)
	}
	u, err := url.Parse(address)
	if err != nil || strings.Contains(address, "#") {
		return nil, badURL(badParts)
	}
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, badURL(badOption)
	case query.Has("addr"): // as in redis.ParseClusterURL
		return nil, badURL(severalHosts)
	case scheme == "unix" && (u.Host != "" || u.Path == "" || u.Path == "/"):
		return nil, badURL(badSocket)
	case !isHost(u):
		return nil, badURL(badParts)
	}
	if database := strings.Trim(u.Path, "/"); scheme != "unix" && database != "" {
		if _, err := strconv.ParseUint(database, 10, 31); err != nil {
			return nil, badURL(badDatabase)
		}
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, badURL(badOption)
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	return o, nil
}

// isHost reports whether the host of u, if it has one, can be a name or an
// address, and its port a port. url.Parse lets much more pass, such as
// "host;password=…".
func isHost(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "" {
		return false
	}
	if strings.Contains(host, ":") || strings.HasPrefix(u.Host, "[") { // IPv6
		_, err := netip.ParseAddr(host)
		return err == nil && strings.HasPrefix(u.Host, "[")
	}
	return !strings.ContainsFunc(host, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_", r)
	})
}

// dialable reports whether the addresses of a client can be host:port. Messages
// and go-redis' errors name them, so one that may have a password in it must not
// be used.
func dialable(client redis.UniversalClient) bool {
	var addresses []string
	switch c := client.(type) {
	case *redis.Client:
		if o := c.Options(); o.Network != "unix" {
			addresses = []string{o.Addr}
		}
	case *redis.ClusterClient:
		addresses = c.Options().Addrs
	case *redis.Ring:
		addresses = slices.Collect(maps.Values(c.Options().Addrs))
	}
	return !slices.ContainsFunc(addresses, func(address string) bool {
		socket := strings.HasPrefix(address, "/")
		return !socket && strings.ContainsAny(address, "@,=;?#/'\" ")
	})
}

// badURL returns the error of Open.
func badURL(reason string) error {
	return fmt.Errorf("ratelimit: %w", &core.ConfigError{Field: "redisstore.Open url", Value: hidden{}, Reason: reason})
}

// hidden stands in messages for a value that they must not show.
type hidden struct{}

func (hidden) String() string { return "(not shown)" }
