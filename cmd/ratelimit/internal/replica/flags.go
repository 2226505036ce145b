// Package replica reads what the adminlimit handlers of a service's processes
// count. No credentials stand in what it returns.
package replica

import (
	"crypto/tls"
	"flag"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
)

// Environment variables with credentials, which other users of the machine
// don't see.
const (
	UserVariable   = "ADMINLIMIT_USER"
	HeaderVariable = "ADMINLIMIT_HEADER"
)

// Flags are the flags of connections to replicas.
type Flags struct {
	user    string
	headers []string
	tls     conn.TLS
	timeout time.Duration
	prefix  string // of their names
}

// Define defines the flags.
func (f *Flags) Define(flags *flag.FlagSet) {
	flags.StringVar(&f.user, "user", "", "who asks, as `name:password`; other users of this machine may see it: "+UserVariable+" is safer")
	flags.Func("header", "a header `field`, such as 'Authorization: Bearer …'; can be repeated; "+HeaderVariable+" is safer", func(v string) error {
		f.headers = append(f.headers, v) // checked later: the message of an error here would show it
		return nil
	})
	f.tls.Define(flags)
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long an `answer` may take")
}

// DefineAs defines the flags with a prefix, beside others of the same names.
func (f *Flags) DefineAs(flags *flag.FlagSet, prefix string) {
	f.prefix = prefix
	own := flag.NewFlagSet("", flag.ContinueOnError)
	f.Define(own)
	own.VisitAll(func(of *flag.Flag) { flags.Var(of.Value, prefix+of.Name, of.Usage) })
}

// Replica is one process of a service.
type Replica struct {
	Where string // its URL without credentials

	url    string
	fields http.Header
	client *http.Client
	prefix string // of the flags
}

// named are the flags that messages name.
var named = regexp.MustCompile(`(^|[ :])-(user|header|cacert|cert|key|sni|insecure|timeout)\b`)

// rename has a message name flags with their prefix.
func rename(message, prefix string) string {
	return named.ReplaceAllString(message, "${1}-"+prefix+"${2}")
}

// Replicas returns the replicas with the handlers at urls.
func (f *Flags) Replicas(urls []string, env func(string) string) ([]*Replica, error) {
	list, err := f.replicas(urls, env)
	if cli.IsMisuse(err) {
		err = cli.Misuse("%s", rename(err.Error(), f.prefix))
	}
	return list, err
}

func (f *Flags) replicas(urls []string, env func(string) string) (list []*Replica, err error) {
	if f.timeout <= 0 {
		return nil, cli.Misuse("-timeout %v must be above 0", f.timeout)
	}
	if err := f.tls.Check(); err != nil {
		return nil, err
	}
	fields, err := f.fields(env)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if err := f.tls.Set(transport.TLSClientConfig); err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: transport, Timeout: f.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the fields are for the given hosts alone
	}
	seen := make(map[string]bool)
	for i, text := range urls {
		u, err := parse(text, i+1)
		if err != nil {
			return nil, err
		}
		if u.Scheme == "http" && f.tls.Given() {
			return nil, cli.Misuse("-cacert, -cert, -key, -sni and -insecure are for https://, and URL %d begins with http://", i+1)
		}
		r := &Replica{Where: u.Scheme + "://" + u.Host + u.Path, fields: fields.Clone(), client: client, prefix: f.prefix}
		query := u.Query()
		query.Set("format", "json")
		query.Set("top", "1000")
		u.RawQuery = query.Encode()
		process := r.Where + "?" + u.RawQuery
		if seen[process] {
			return nil, cli.Misuse("%s is given twice, and would count twice", r.Where)
		}
		seen[process] = true
		if r.url = u.String(); u.User != nil { // the client sends these
			r.fields.Del("Authorization")
		}
		list = append(list, r)
	}
	return list, nil
}

// fields returns the header fields that say who asks. Flags count more than the
// environment.
func (f *Flags) fields(env func(string) string) (http.Header, error) {
	h := http.Header{"Accept": {"application/json"}}
	headers, user := f.headers, f.user
	if len(headers) == 0 && user == "" {
		if user = env(UserVariable); env(HeaderVariable) != "" {
			headers = []string{env(HeaderVariable)}
		}
	}
	for _, line := range headers { // no message shows a line
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil, cli.Misuse("-header and %s must be such as 'Authorization: Bearer …': a name, a colon and a value", HeaderVariable)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	if user == "" {
		return h, nil
	}
	name, password, ok := strings.Cut(user, ":")
	switch {
	case !ok || name == "":
		return nil, cli.Misuse("-user and %s must be NAME:PASSWORD", UserVariable)
	case h.Get("Authorization") != "":
		return nil, cli.Misuse("-user and -header 'Authorization: …' both say who asks: give one")
	}
	r := http.Request{Header: h}
	r.SetBasicAuth(name, password)
	return h, nil
}

// parse returns the n-th URL. Its errors don't show it, since it could be a
// password that a flag lacks.
func parse(text string, n int) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "":
		u.Fragment = ""
		return u, nil
	case err == nil && (u.Scheme == "redis" || u.Scheme == "rediss"):
		return nil, cli.Misuse("URL %d is that of a Redis: give those of the processes of a service, where they mount adminlimit, such as http://app-1:8080/admin/limits", n)
	}
	return nil, notAURL(n)
}

func notAURL(n int) error {
	return cli.Misuse("argument %d is no URL that begins with http:// or https://, such as http://app-1:8080/admin/limits (a policy is given by -policy)", n)
}
