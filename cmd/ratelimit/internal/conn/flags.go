package conn

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
)

// PasswordVariable is the environment variable with the password, as redis-cli
// has it.
const PasswordVariable = "REDISCLI_AUTH"

// SentinelVariable is the environment variable with the password of the
// Sentinels, which is another one or none.
const SentinelVariable = "REDISCLI_SENTINEL_AUTH"

// Flags are the flags of a connection.
type Flags struct {
	host, socket, user, password, url string
	port, db                          int
	tls, cluster                      bool
	certificates                      TLS
	sentinels, master                 string
	sentinelUser, sentinelPassword    string
	side                              *Side // nil: there is one server

	Prefix  string        // of the keys in Redis
	Timeout time.Duration // of a call
	Any     bool          // a replica will do, and a master that does not answer if Sentinel names it: no flag sets it
}

// Define defines the flags.
func (f *Flags) Define(flags *flag.FlagSet) {
	flags.StringVar(&f.host, "h", "127.0.0.1", "the server's `host`; with -c also several nodes, as host:port,…")
	flags.IntVar(&f.port, "p", 6379, "the server's `port`")
	flags.StringVar(&f.socket, "s", "", "the server's Unix `socket`, in place of -h and -p")
	flags.StringVar(&f.url, "u", "", "the server's `URL`, such as redis://user@redis:6379/0, or rediss://… with TLS")
	flags.StringVar(&f.user, "user", "", "the ACL `user`")
	flags.StringVar(&f.password, "a", "", "the `password`; other users of this machine may see it: "+PasswordVariable+" is safer")
	flags.IntVar(&f.db, "n", 0, "the `number` of the database")
	flags.BoolVar(&f.tls, "tls", false, "use TLS")
	f.certificates.Define(flags)
	flags.BoolVar(&f.cluster, "c", false, "the server is a node of a Cluster: use all of its masters")
	flags.StringVar(&f.sentinels, "sentinel", "", "the Sentinels, as `host:port,…`, which know the master of the name -master")
	flags.StringVar(&f.master, "master", "", "the `name` of the master that the Sentinels know")
	flags.StringVar(&f.sentinelUser, "sentinel-user", "", "the ACL `user` of the Sentinels")
	flags.StringVar(&f.sentinelPassword, "sentinel-password", "", "the `password` of the Sentinels, if they have one; "+SentinelVariable+" is safer")
	flags.StringVar(&f.Prefix, "prefix", "ratelimit:", "how keys begin, as redisstore.WithPrefix sets it")
	flags.DurationVar(&f.Timeout, "timeout", time.Second, "how long a `call` may take")
}

// Target is where keys are, to compare two connections: it may have a password.
func (f *Flags) Target() string {
	o, err := redis.ParseURL(f.url)
	if err != nil {
		return f.url + " " + f.Prefix
	}
	if f.db != 0 {
		o.DB = f.db
	}
	if f.sentinels != "" {
		o.Addr = f.sentinels + " " + f.master
	}
	return fmt.Sprint(o.Addr, " ", o.DB, " ", f.Prefix)
}

// URL takes the address from an argument.
func (f *Flags) URL(url string) { f.url = url }

func (f *Flags) dialTimeout() time.Duration { return max(time.Second, 2*f.Timeout) }

// check returns what is wrong with the flags.
func (f *Flags) check() error {
	switch {
	case f.Timeout <= 0:
		return cli.Misuse("-timeout %v must be above 0", f.Timeout)
	case f.port < 1 || f.port > 65535:
		return cli.Misuse("-p %d is not a port: it must be from 1 to 65535", f.port)
	case strings.ContainsAny(f.host, "@/"):
		return cli.Misuse("-h is a host alone: give a URL by -u")
	case !f.cluster && strings.Contains(f.host, ","):
		return cli.Misuse("-h is one host: several are nodes of a Cluster, with -c")
	case !f.cluster && strings.Contains(f.host, ":") && net.ParseIP(strings.Trim(f.host, "[]")) == nil:
		return cli.Misuse("-h is a host alone: give the port by -p")
	case f.db < 0:
		return cli.Misuse("-n %d must not be negative", f.db)
	case f.cluster && f.sentinels != "":
		return cli.Misuse("-c and -sentinel exclude each other")
	case f.cluster && f.db != 0:
		return cli.Misuse("a Cluster has database 0 alone: leave -n out")
	case (f.sentinels == "") != (f.master == ""):
		return cli.Misuse("-sentinel host:port,… and -master NAME belong together")
	case f.sentinels == "" && f.sentinelUser+f.sentinelPassword != "":
		return cli.Misuse("-sentinel-user and -sentinel-password need -sentinel host:port,…")
	}
	return f.certificates.Check()
}

// options returns the options of a client, and the addresses of the nodes of a
// Cluster.
func (f *Flags) options(env func(string) string) (o *redis.Options, addrs []string, err error) {
	if err := f.check(); err != nil {
		return nil, nil, err
	}
	if addrs, err = f.addresses(); err != nil {
		return nil, nil, err
	}
	o = &redis.Options{Addr: addrs[0], DB: f.db}
	if f.socket != "" {
		o.Network, o.Addr = "unix", f.socket
	}
	if f.url != "" {
		if o, err = redis.ParseURL(f.url); err != nil { // the error could show the password
			return nil, nil, cli.Misuse("the URL can't be read: it must be such as redis://redis:6379 or rediss://…, with TLS; characters such as / ? # in a password are percent-encoded (%s is safer)", PasswordVariable)
		}
		if f.db != 0 {
			o.DB = f.db
		}
		if addrs = []string{o.Addr}; f.cluster && o.DB != 0 {
			return nil, nil, cli.Misuse("a Cluster has database 0 alone: leave the number out of the URL")
		}
	}
	if f.user != "" {
		o.Username = f.user
	}
	switch {
	case f.password != "":
		o.Password = f.password
	case o.Password == "":
		o.Password = f.auth(env, PasswordVariable)
	}
	if err := f.setTLS(o); err != nil {
		return nil, nil, err
	}
	o.ContextTimeoutEnabled, o.DialerRetries, o.DialTimeout = true, 1, f.dialTimeout()
	if f.sentinels != "" && f.sentinelPassword == "" {
		f.sentinelPassword = f.auth(env, SentinelVariable)
	}
	return o, addrs, nil
}

// addresses returns what -h and -p say. Several are nodes of a Cluster.
func (f *Flags) addresses() (list []string, err error) {
	for _, host := range strings.Split(f.host, ",") {
		port := strconv.Itoa(f.port)
		if h, p, err := net.SplitHostPort(host); err == nil {
			host, port = h, p
		}
		host = strings.Trim(host, "[]")
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return nil, cli.Misuse("-h %s: each node is host:port, or a host whose port is that of -p", f.host)
		}
		list = append(list, net.JoinHostPort(host, port))
	}
	return list, nil
}

// otherNodes is how other nodes of a Cluster are named.
func (f *Flags) otherNodes() string {
	if f.url != "" {
		return " in the URL"
	}
	return " by -h, or several as host:port,…: one that answers knows the others"
}

// setTLS sets the configuration of TLS. o has that of the URL.
func (f *Flags) setTLS(o *redis.Options) error {
	if !f.tls && o.TLSConfig == nil {
		if f.certificates.Given() {
			return errNeedTLS
		}
		return nil
	}
	if o.TLSConfig == nil {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if f.sentinels == "" && f.socket == "" {
			o.TLSConfig.ServerName, _, _ = net.SplitHostPort(o.Addr)
		}
	}
	return f.certificates.Set(o.TLSConfig)
}
