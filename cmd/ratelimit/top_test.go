package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/adminlimit"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/denied"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

// process is a process of a service, whose adminlimit asks for ann's password.
type process struct {
	limiter *core.Limiter
	perDay  int64
	url     string
}

// follow has p follow the exceptions of a store until the function that it
// returns is called.
func (p *process) follow(s *redisstore.Store) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.FollowExceptions(ctx, p.limiter) })
	return func() { cancel(); running.Wait() }
}

// replicaOf starts a process whose policy api has one limit of so many requests
// a day.
func replicaOf(t *testing.T, perDay int64, start func(http.Handler) *httptest.Server, options ...denied.Option) *process {
	t.Helper()
	top := core.Must(denied.New(options...))
	l := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{core.PerDay(perDay)}}, core.WithObserver(top.Observe)))
	authorise := func(r *http.Request) (string, bool) {
		if r.Header.Get("X-Token") == password {
			return "token", true
		}
		who, given, _ := r.BasicAuth()
		if given != password {
			return "", false
		}
		return who, who != "mallory"
	}
	mux := http.NewServeMux()
	mux.Handle("/admin/limits", adminlimit.New(authorise, adminlimit.Limiters(l), adminlimit.WithDenied(top), adminlimit.WithChallenge("Basic")))
	mux.Handle("/old", http.RedirectHandler("/login?token=hunter2hunter2", http.StatusFound))
	server := start(mux)
	t.Cleanup(server.Close)
	return &process{l, perDay, server.URL + "/admin/limits"}
}

// deny denies n requests of a key, whose tokens are used.
func (p *process) deny(t *testing.T, key string, n int) {
	t.Helper()
	res, err := p.limiter.AllowN(t.Context(), key, p.perDay)
	require.NoError(t, err)
	require.True(t, res.Allowed, "the premise: %s was not used", key)
	for range n {
		res, err := p.limiter.Allow(t.Context(), key)
		require.NoError(t, err)
		require.False(t, res.Allowed)
	}
}

// top runs the command with an environment of name=value.
func top(t *testing.T, env string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	name, value, _ := strings.Cut(env, "=")
	code = table.Run(t.Context(), cli.Streams{Out: &o, Err: &e, Env: func(n string) string { return map[string]string{name: value, "LOG_KEY_SECRET": secret}[n] }},
		append([]string{"top"}, args...))
	if isJSON(args) {
		checkJSON(t, "top", o.String())
	}
	for _, text := range []string{o.String(), e.String()} {
		assert.NotContains(t, text, password, "no output has a password: %v", args)
		assert.NotContains(t, text, "goroutine ", "no stack trace: %v", args)
	}
	return o.String(), e.String(), code
}

const asAnn = "ADMINLIMIT_USER=ann:" + password

func TestTopAddsUpReplicas(t *testing.T) {
	one, two := replicaOf(t, 5, httptest.NewServer), replicaOf(t, 5, httptest.NewServer)
	one.deny(t, "ip:192.0.2.1", 6)
	one.deny(t, "header:x-api-key:k-1", 1)
	two.deny(t, "ip:192.0.2.1", 3)
	for name, how := range map[string]struct {
		env   string
		flags []string
	}{
		"the environment": {env: asAnn}, "-user": {flags: []string{"-user", "ann:" + password}}, "-header": {flags: []string{"-header", "X-Token: " + password}},
		"a field in the environment": {env: "ADMINLIMIT_HEADER=X-Token:" + password}, "a flag counts more": {env: "ADMINLIMIT_USER=ann:wrong", flags: []string{"-user", "ann:" + password}},
	} {
		out, errs, code := top(t, how.env, append(how.flags, one.url, two.url)...)
		assert.Regexp(t, `^api: 10 denied by 2 replicas in \d+ s
  ip:192\.0\.2\.1          9  90\.0 %
  header:x-api-key:k-1  1  10\.0 %
$`, out, "%s: %s", name, errs)
		assert.Equal(t, cli.OK, code, name)
	}
	out, _, _ := top(t, "", strings.Replace(one.url, "//", "//ann:"+password+"@", 1), "-n", "1")
	assert.Contains(t, out, "each other key: at most 1\n", "the URL can say who asks, and keys that are left out are bounded")
	out, _, _ = top(t, asAnn, one.url, "-keys", "hide")
	assert.NotContains(t, out, "k-1")

	var read struct {
		Replicas []struct{ URL, Error string }
		Policies []struct {
			Policy string
			Denied int64
			Keys   []denied.Key
			Window *float64 `json:"longest_window_seconds"`
		}
	}
	out, _, _ = top(t, asAnn, "-json", one.url, two.url)
	require.NoError(t, json.Unmarshal([]byte(out), &read))
	assert.Equal(t, []string{one.url, two.url}, []string{read.Replicas[0].URL, read.Replicas[1].URL})
	assert.Equal(t, int64(9), read.Policies[0].Keys[0].AtLeast)
	assert.NotNil(t, read.Policies[0].Window)

	_, errs, code := top(t, asAnn, "-policy", "ap", one.url)
	assert.Contains(t, errs, "no replica has the policy ap: did you mean api?")
	assert.Equal(t, cli.Misused, code)
	quiet := replicaOf(t, 5, httptest.NewServer)
	out, _, code = top(t, asAnn, "-policy", "api", quiet.url)
	assert.Equal(t, "Nobody is denied by 1 replica.\n", out)
	assert.Equal(t, cli.OK, code)
}

// While more keys are denied than are counted, the sums have bounds, and they
// are true.
func TestTopSaysHowCertainCountsAre(t *testing.T) {
	one, two := replicaOf(t, 5, httptest.NewServer, denied.WithMaxKeys(2)), replicaOf(t, 5, httptest.NewServer)
	for i := range 5 {
		one.deny(t, fmt.Sprint("user:", i), 2)
	}
	one.deny(t, "much", 50)
	two.deny(t, "much", 7)
	out, _, code := top(t, asAnn, one.url, two.url)
	assert.Equal(t, cli.OK, code)
	assert.Regexp(t, `much +(57|\d+ to 6\d) +(8|7)\d\.\d %`, out)
	assert.Contains(t, out, "each other key: at most ")
}

// Replicas that can't be read are named with what to do, and the others count
// all the same.
func TestTopSaysWhichReplicasItCouldNotRead(t *testing.T) {
	one, secure := replicaOf(t, 5, httptest.NewServer), replicaOf(t, 5, httptest.NewTLSServer)
	one.deny(t, "ann", 4)
	other := replicaOf(t, 5, httptest.NewServer)
	answers := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL + "/admin/limits"
	}
	without := httptest.NewServer(adminlimit.New(func(*http.Request) (string, bool) { return "ann", true }, adminlimit.Limiters(one.limiter)))
	t.Cleanup(without.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	down := "http://" + l.Addr().String() + "/admin/limits"
	require.NoError(t, l.Close())
	s := serve(t) // a Redis
	for url, says := range map[string]string{
		down: "connection refused", one.url + "/other": "404 Not Found: adminlimit is not mounted at this path", without.URL: "needs adminlimit.WithDenied",
		strings.Replace(one.url, "/admin/limits", "/old", 1): "302 Found to " + strings.TrimSuffix(one.url, "/admin/limits") + "/login: give the URL of the handler itself",
		strings.Replace(one.url, "http:", "https:", 1):       "write http://",
		strings.Replace(secure.url, "https:", "http:", 1):    "write https://",
		secure.url:                           "-cacert",
		"http://" + s.addr + "/admin/limits": "closed the connection without an answer",
		strings.Replace(other.url, "//", "//mallory:"+password+"@", 1):                                             "403 Forbidden: say who asks by -user",
		strings.Replace(other.url, "//", "//ann:wrong-password@", 1):                                               "401 Unauthorized: say who asks by -user",
		answers(func(http.ResponseWriter, *http.Request) {}):                                                       "not that of adminlimit",
		answers(http.NotFound) + "?token=" + password:                                                              "not mounted",
		answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }):                 "not that of adminlimit",
		answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"a":1}`)) }):                "not that of adminlimit",
		answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"policies": [{"name":`)) }): "not that of adminlimit",
		answers(func(w http.ResponseWriter, _ *http.Request) {
			for range 33 {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20))
			}
		}): "longer than 32 MiB",
		answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }): "closed the connection without an answer",
	} {
		out, errs, code := top(t, asAnn, one.url, url)
		assert.Contains(t, out, "api: 4 denied by 1 replica in ", "%s: the others count", url)
		_, line, found := strings.Cut(out, "\nnot read: ")
		require.True(t, found, "%s: %s", url, out)
		assert.Contains(t, line, says)
		assert.Equal(t, "ratelimit: 1 of 2 replicas can't be read\n", errs)
		assert.Equal(t, cli.Unavailable, code, "a partial answer is told by the exit code")
	}
	strict := replicaOf(t, 5, func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
		s.StartTLS()
		return s
	})
	out, _, _ := top(t, asAnn, strict.url, "-insecure")
	assert.Contains(t, out, "give it by -cert and -key")
	certificate(t)
	out, _, code := top(t, asAnn, strict.url, "-insecure", "-cert", "cert.pem", "-key", "key.pem")
	assert.Equal(t, "Nobody is denied by 1 replica.\n", out)
	assert.Equal(t, cli.OK, code)
	out, _, code = top(t, asAnn, secure.url, "-insecure")
	assert.Equal(t, "Nobody is denied by 1 replica.\n", out)
	assert.Equal(t, cli.OK, code)
	release := make(chan struct{})
	slow := answers(func(http.ResponseWriter, *http.Request) { <-release })
	for _, url := range []string{slow, "https://" + s.addr} {
		out, _, _ = top(t, asAnn, "-timeout", "50ms", url)
		assert.Contains(t, out, "no answer in time: check host and port; a slow replica needs a longer -timeout", url)
	}
	close(release)
}

// A policy that is another one in some replicas is told, with its replicas.
func TestTopSaysWhichDefinitionsDiffer(t *testing.T) {
	one, two, three := replicaOf(t, 5, httptest.NewServer), replicaOf(t, 5, httptest.NewServer), replicaOf(t, 6, httptest.NewServer)
	out, _, _ := top(t, asAnn, one.url, two.url)
	assert.NotContains(t, out, "not the same")
	out, _, code := top(t, asAnn, one.url, two.url, three.url)
	assert.Equal(t, cli.OK, code)
	assert.Regexp(t, `api is not the same in all replicas: [0-9a-f]{12} at http`, out)
	assert.Contains(t, out, one.url+", "+two.url)
}

// Two URLs of one process count its denials twice.
func TestTopSaysThatTwoURLsMayBeOneProcess(t *testing.T) {
	one, two := replicaOf(t, 5, httptest.NewServer), replicaOf(t, 5, httptest.NewServer)
	again := strings.Replace(one.url, "127.0.0.1", "localhost", 1)
	out, _, _ := top(t, asAnn, one.url, two.url, again)
	assert.NotContains(t, out, "alike", "who denies nobody answers what all do")
	one.deny(t, "ann", 2)
	two.deny(t, "bob", 2)
	out, _, _ = top(t, asAnn, one.url, two.url, again)
	assert.Contains(t, out, one.url+" and "+again+" answer alike: if they are one process, give one of them\n")
	assert.Equal(t, 1, strings.Count(out, "alike"))
}

func TestTopOfHashedKeys(t *testing.T) {
	keyed := denied.WithKeySecret([]byte(secret))
	one, two, plain := replicaOf(t, 5, httptest.NewServer, keyed), replicaOf(t, 5, httptest.NewServer, keyed), replicaOf(t, 5, httptest.NewServer)
	hash := show.Hash([]byte(secret), "ann")
	for _, p := range []*process{one, two, plain} {
		p.deny(t, "ann", 2)
	}
	out, _, _ := top(t, asAnn, one.url, two.url)
	assert.Contains(t, out, "  "+hash+"  4  100 %\n")
	assert.NotContains(t, out, "ann")
	out, _, _ = top(t, asAnn, one.url, two.url, plain.url)
	assert.Contains(t, out, "one client may be listed twice. LOG_KEY_SECRET and -keys hash add these up.")
	out, _, _ = top(t, asAnn, "-keys", "hash", one.url, two.url, plain.url)
	assert.Contains(t, out, "  "+hash+"  6  100 %\n")
	assert.NotContains(t, out, "twice")
}

// What replicas send can't steer a terminal.
func TestTopIsHarmless(t *testing.T) {
	one := replicaOf(t, 5, httptest.NewServer)
	one.deny(t, "evil\x1b[2J\u202e", 2)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"policies": [{"name": "p\u001b[2J", "hash": "\u001b"}, {"name": "p\u001b[2J", "hash": "b"}], "denied": {"policies": [{"policy": "p\u001b", "denied": -1, "keys": [{"key": "", "at_least": -5}]}, {"policy": "p\u001b"}]}}`))
	}))
	t.Cleanup(evil.Close)
	out, _, code := top(t, asAnn, one.url, evil.URL)
	assert.Equal(t, cli.OK, code)
	assert.NotContains(t, out, "\x1b")
	assert.NotContains(t, out, "\u202e")
	assert.Contains(t, out, `evil\x1b[2J`)
}

func TestTopRefusesWrongCommandLines(t *testing.T) {
	for line, says := range map[string]string{
		"http://a/x http://a/x": "http://a/x is given twice", "http://ann:" + password + "@a/x http://a/x": "http://a/x is given twice",
		"redis://:" + password + "@a": "that of a Redis", "ann:" + password: "argument 1 is no URL", "http://a api": "a policy is given by -policy", "localhost:8080/admin": "begins with http://",
		"http://": "is no URL", "http://a -n 0": "from 1 to 1000", "http://a -timeout 0": "above 0", "http://a -keys x": "show, hash or hide", "http://a -insecure": "are for https://",
		"http://a -user " + password: "NAME:PASSWORD", "http://a -header " + password: "a name, a colon and a value", "http://a -user ann:x -header Authorization:x": "give one",
		"https://a -cert x": "belong together", "": "needs URL…", "http://a%zz" + password: "is no URL",
	} {
		out, errs, code := top(t, "", strings.Fields(line)...)
		assert.Equal(t, cli.Misused, code, line)
		assert.Empty(t, out, line)
		assert.Contains(t, errs, says, line)
	}
	out, _, code := top(t, "", "http://127.0.0.1:1/", "-header", "X-A: \x01"+password)
	assert.Equal(t, cli.Unavailable, code, out)
}

func TestTopWatches(t *testing.T) {
	one := replicaOf(t, 5, httptest.NewServer)
	one.deny(t, "ann", 2)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	w := &watcher{repaints: 2, stop: stop}
	code := table.Run(ctx, cli.Streams{Out: w, Err: w, Env: func(string) string { return "ann:" + password }},
		[]string{"top", "-watch", "-user", "ann:" + password, one.url, "http://127.0.0.1:1"})
	assert.Equal(t, cli.Interrupted, code)
	assert.Contains(t, w.String(), "api: 2 denied by 1 replica")
	assert.Contains(t, w.String(), "not read: http://127.0.0.1:1", "a replica that is away ends nothing")
}
