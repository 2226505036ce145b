package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/keyparts"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// urlVariable is the environment variable with the URL of Redis. A URL with a
// password belongs there: other users of a machine see command lines.
const urlVariable = "REDIS_URL"

const defaultURL = "redis://localhost:6379"

// storeClock is the clock of decisions; nil: that of Redis. Tests set it.
var storeClock func() time.Time

// redisFlags are the flags of commands that look into Redis.
type redisFlags struct {
	url, prefix string
	timeout     time.Duration
	rate        int
	tls         tlsFlags
}

func (f *redisFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.url, "url", "u", "", `where Redis is, such as redis://user:password@host:6379/0, rediss://… with TLS, or with Sentinels
redis://sentinel:26379?master_name=NAME; of a Cluster any node (default $`+urlVariable+", or "+defaultURL+")")
	cmd.Flags().StringVar(&f.prefix, "prefix", "ratelimit:", "how keys begin, as redisstore.WithPrefix sets it")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Second, "how long a call to Redis may take")
	cmd.Flags().IntVar(&f.rate, "rate", 10_000, "how many keys a second Redis looks at for a listing; 0: as fast as it can")
	f.tls.define(cmd)
}

// server is a Redis that answers, and a store on it.
type server struct {
	client redis.UniversalClient
	store  *redisstore.Store

	where    string         // for messages
	single   *redis.Options // of the one server of the URL; nil: its Sentinels are named
	role     string         // master or replica; "": it is a Cluster, or not known
	flags    *redisFlags
	progress io.Writer // a terminal, or nil
}

func (s *server) close() { _ = s.client.Close() }

// open connects to Redis.
func (f *redisFlags) open(cmd *cobra.Command) (*server, error) {
	if f.timeout <= 0 || f.rate < 0 {
		return nil, misuse("--timeout must be above 0, and --rate not below it")
	}
	s := &server{flags: f}
	if stderr, ok := cmd.ErrOrStderr().(*os.File); ok && term.IsTerminal(int(stderr.Fd())) {
		s.progress = stderr
	}
	if err := s.dial(cmp.Or(f.url, os.Getenv(urlVariable), defaultURL)); err != nil {
		return nil, err
	}
	if err := s.greet(cmd.Context()); err != nil {
		s.close()
		return nil, err
	}
	s.store = s.storeAt(f.prefix)
	return s, nil
}

// storeAt returns a store with another prefix.
func (s *server) storeAt(prefix string) *redisstore.Store {
	options := []redisstore.Option{
		redisstore.WithPrefix(prefix), redisstore.WithTimeout(s.flags.timeout), redisstore.WithDenyCache(0), core.WithLogger(slog.New(slog.DiscardHandler)),
	}
	if storeClock != nil {
		options = append(options, core.WithClock(storeClock))
	}
	return redisstore.New(s.client, options...)
}

// dial makes the client that a URL describes.
func (s *server) dial(raw string) (err error) {
	defer func() {
		if recover() != nil { // go-redis panics for a pool_size of -1
			err = misuse("the URL of Redis has an option that no client can have")
		}
	}()
	if u, err := url.Parse(raw); err == nil && u.Query().Has("master_name") {
		return s.dialSentinels(raw, u)
	}
	o, err := redisstore.ParseURL(raw)
	if err != nil {
		return wrongURL(err)
	}
	o.DialTimeout = cmp.Or(o.DialTimeout, max(time.Second, s.flags.timeout))
	s.where, s.single, s.client = "Redis at "+o.Addr, o, redis.NewClient(o)
	return s.flags.tls.set(o.TLSConfig)
}

// dialSentinels makes the client of a URL that names Sentinels and their
// master.
func (s *server) dialSentinels(raw string, u *url.URL) error {
	without := *u // what ParseURL does not know
	without.RawQuery = ""
	if _, err := redisstore.ParseURL(without.String()); err != nil {
		return wrongURL(err)
	}
	o, err := redis.ParseFailoverURL(raw)
	if err != nil { // which may show a password
		return misuse("the URL of Redis must have options that go-redis knows, as in redis://sentinel:26379?master_name=NAME&addr=other:26379&password=PASSWORD")
	}
	for _, addr := range o.SentinelAddrs {
		if _, err := redisstore.ParseURL("redis://" + addr); err != nil {
			return wrongURL(err)
		}
	}
	o.ContextTimeoutEnabled, o.DialerRetries, o.DialTimeout = true, 1, cmp.Or(o.DialTimeout, max(time.Second, s.flags.timeout))
	s.where, s.client = fmt.Sprintf("the master %s of Sentinel at %s", o.MasterName, strings.Join(o.SentinelAddrs, ", ")), redis.NewFailoverClient(o)
	return s.flags.tls.set(o.TLSConfig)
}

// wrongURL says what is wrong with the URL of Redis, and shows no part of it:
// it may have a password at a wrong place.
func wrongURL(err error) error {
	reason := "must be such as redis://user:password@host:6379/0"
	if mistake, ok := errors.AsType[*core.ConfigError](err); ok {
		reason = mistake.Reason
	}
	return misuse("the URL of Redis (--url or $%s) %s\n  Of a Cluster name any node. With Sentinels write redis://sentinel:26379?master_name=NAME.", urlVariable, reason)
}

// greet finds out what the server is. Of a node of a Cluster it makes a client
// of the whole.
func (s *server) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(time.Second, 2*s.flags.timeout))
	defer cancel()
	if err := s.client.Ping(ctx).Err(); err != nil {
		return s.explain(err)
	}
	reply, _ := s.client.Do(ctx, "hello").Result() // nothing is known of a server without it
	fields, _ := reply.(map[any]any)
	s.role, _ = fields["role"].(string)
	switch fields["mode"] {
	case "sentinel":
		return misuse("%s is a Sentinel: add ?master_name=NAME to the URL", s.where)
	case "cluster":
		single := s.single
		if single == nil {
			return nil
		}
		_ = s.client.Close()
		s.where, s.role = "the Cluster at "+single.Addr, ""
		s.client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{single.Addr}, Username: single.Username, Password: single.Password, TLSConfig: single.TLSConfig,
			ContextTimeoutEnabled: true, DialerRetries: 1, DialTimeout: single.DialTimeout, ReadTimeout: single.ReadTimeout, MaxRedirects: 3,
		})
		return s.explain(s.client.Ping(ctx).Err())
	}
	return nil
}

// master returns an error if the server is a replica, which can lack what the
// master has, and takes no changes.
func (s *server) master() error {
	if s.role == "replica" {
		return misuse("%s is a replica: name its master, or its Sentinels with ?master_name=NAME", s.where)
	}
	return nil
}

// explain adds to the error of a call where it happened and what to do.
func (s *server) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, new(misuseError)) {
		return err
	}
	if errors.Is(err, core.ErrUnit) || errors.Is(err, core.ErrCost) || errors.Is(err, core.ErrNoKey) { // Redis was not asked
		return misuse("%w", err)
	}
	text := s.where + ": " + err.Error()
	for _, advice := range advices {
		if strings.Contains(err.Error(), advice.part) {
			return errors.New(text + "\n  " + advice.do)
		}
	}
	if network, ok := errors.AsType[net.Error](err); ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		text += "\n  Check the address. A slow way needs a longer --timeout."
	}
	return errors.New(text)
}

// A server that refuses a client without a certificate may say so, or close the
// connection.
const (
	wantsCertificate = "If the server wants a certificate of this client, give it by --cert and --cert-key."
	closed           = "The server closed the connection: if it speaks TLS at this port, write rediss://. " + wantsCertificate
)

// advices are what to do about errors, by a part of their text.
var advices = []struct{ part, do string }{
	{"NOAUTH", "Redis wants a password: put it into the URL in " + urlVariable + "."},
	{"WRONGPASS", "Check the user and the password in the URL."},
	{"invalid password", "Check the password in the URL."},
	{"without any password configured", "This Redis wants no password: leave it out of the URL."},
	{"NOPERM", "The user lacks a right: docs/operations.md lists them (the ACL user). list and reset --all-of need scan too."},
	{"READONLY", "The server is a replica: name its master."},
	{"first record does not look like a TLS handshake", "The server speaks no TLS at this port: write redis://."},
	{"x509: certificate signed by unknown authority", "Give the certificates that sign the server's by --cacert."},
	{"certificate required", wantsCertificate},
	{"EOF", closed},
	{"connection reset", closed},
	{"broken pipe", closed},
	{"connection refused", "Check the address, and that the server runs."},
}

// listing is what a list of keys found beside them.
type listing struct {
	policies []string // that have exceptions, if keys of all policies are listed
	failed   []error  // masters of a Cluster whose keys are missing
}

// keys lists the keys of a policy, or of all with "". It shows how far it is.
func (s *server) keys(ctx context.Context, policy string, l *listing) iter.Seq2[redisstore.Bucket, error] {
	list := s.store.Keys(ctx, s.flags.rate, s.looked)
	if policy != "" {
		list = s.store.Buckets(ctx, policy, s.flags.rate, s.looked)
	}
	return func(yield func(redisstore.Bucket, error) bool) {
		defer s.show("\r\x1b[K")
		for b, err := range list {
			switch {
			case ctx.Err() != nil:
				yield(b, ctx.Err())
				return
			case err != nil:
				l.failed = append(l.failed, s.explain(err))
			case b.Key == "":
				l.policies = append(l.policies, b.Policy)
			case !yield(b, nil):
				return
			}
		}
	}
}

// matching leaves out keys that don't have a value, unless that is "".
func matching(list iter.Seq2[redisstore.Bucket, error], value string) iter.Seq2[redisstore.Bucket, error] {
	return func(yield func(redisstore.Bucket, error) bool) {
		for b, err := range list {
			if err == nil && value != "" && !keyparts.Of(b.Key).Has(value) {
				continue
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

// looked shows how many keys were looked at.
func (s *server) looked(done, all int64) {
	if all > 0 { // else this user may not ask for it
		s.show("\r" + show.Count(min(done, all)) + " of " + show.Count(all) + " keys")
	}
}

// show writes to the terminal, if there is one.
func (s *server) show(text string) {
	if s.progress != nil {
		_, _ = io.WriteString(s.progress, text)
	}
}

// tlsFlags are the files of TLS.
type tlsFlags struct{ cacert, cert, key string }

func (f *tlsFlags) define(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cacert, "cacert", "", "a file with the certificates that sign the server's; by default the system's")
	cmd.Flags().StringVar(&f.cert, "cert", "", "a file with this client's certificate")
	cmd.Flags().StringVar(&f.key, "cert-key", "", "the file with the key of --cert")
}

// set adds the files to a configuration, which is nil without TLS.
func (f *tlsFlags) set(config *tls.Config) error {
	switch {
	case *f == tlsFlags{}:
		return nil
	case config == nil:
		return misuse("--cacert, --cert and --cert-key need TLS: write rediss:// or https://")
	case (f.cert == "") != (f.key == ""):
		return misuse("--cert and --cert-key belong together")
	}
	if f.cacert != "" {
		text, err := os.ReadFile(f.cacert)
		if err != nil {
			return err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("--cacert %s has no certificate in the PEM format", f.cacert)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return fmt.Errorf("--cert and --cert-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}
