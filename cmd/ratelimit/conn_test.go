package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

const password = "hunter2hunter2"

// connect runs get by the flags of a connection, with a password in the
// environment.
func connect(t *testing.T, auth string, flags ...string) (out, errs string, code int) {
	t.Helper()
	var o, e strings.Builder
	env := func(name string) string { return map[string]string{"REDISCLI_AUTH": auth}[name] }
	code = table.Run(t.Context(), cli.Streams{Out: &o, Err: &e, Env: env}, append([]string{"get", "-policies", "p.yaml", "api", "x"}, flags...))
	for _, secret := range []string{password, "wrong-password"} {
		assert.NotContains(t, o.String()+e.String(), secret, "no output has a password: %v", flags)
	}
	return o.String(), e.String(), code
}

func at(t *testing.T, addr string) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return []string{"-h", host, "-p", port}
}

func TestPasswordsAndWhatToDo(t *testing.T) {
	server := redistest.Start(t, "--requirepass", password)
	files(t, map[string]string{"p.yaml": livePolicies})
	for name, c := range map[string]struct{ auth, flags string }{
		"the environment": {auth: password}, "-a": {flags: "-a " + password}, "the URL": {flags: "-u redis://:" + password + "@" + server.Addr},
		"a user": {auth: password, flags: "-user default"}, "long flags": {auth: password, flags: "--n 3"},
	} {
		out, errs, code := connect(t, c.auth, append(at(t, server.Addr), strings.Fields(c.flags)...)...)
		assert.Equal(t, cli.OK, code, "%s: %s", name, errs)
		assert.Contains(t, out, "never used", name)
	}
	port, err := redistest.FreePort()
	require.NoError(t, err)
	for name, c := range map[string]struct{ auth, flags, says string }{
		"no password":           {says: "set REDISCLI_AUTH"},
		"a wrong one":           {auth: "wrong-password", says: "Check the password"},
		"in the URL":            {flags: "-u redis://ann:wrong-password@" + server.Addr, says: "Check the password"},
		"no server":             {flags: "-p " + port, says: "Check -h and -p"},
		"no Cluster":            {auth: password, flags: "-c", says: "leave -c out"},
		"no TLS":                {auth: password, flags: "--tls -timeout 200ms", says: "If no TLS is spoken at this port, leave -tls out"},
		"no TLS, by URL":        {auth: password, flags: "-timeout 200ms -u rediss://" + server.Addr, says: "leave -tls out (in a URL, write redis://)"},
		"a database in the URL": {auth: password, flags: "-u redis://" + server.Addr + "/99", says: "the number in the URL"},
		"no Sentinel":           {flags: "--sentinel 127.0.0.1:" + port + " -master limits", says: "Check -sentinel and -master"},
		"no file":               {flags: "--tls --cacert lost.pem", says: "lost.pem"},
		"many databases":        {auth: password, flags: "-n 99", says: "check -n"},
	} {
		_, errs, code := connect(t, c.auth, append(at(t, server.Addr), strings.Fields(c.flags)...)...)
		assert.Equal(t, cli.Unavailable, code, name)
		assert.Contains(t, errs, c.says, name)
	}
	for flags, says := range map[string]string{
		"-h redis://ann:wrong-password@host": "give a URL by -u", "-p redis://ann:wrong-password@host/0": "-p: this value can't be read: it is the server's port, such as 6379", "-u redis://x redis://ann:wrong-password@host y": "takes POLICY [KEY], and there are",
		"-n ann:wrong-password@host": "-n: this value can't be read",
		"-h 127.0.0.1:6379":          "give the port by -p", "-p wrong-password": "such as 6379", "-awrong-password": "a value follows a space", "-header wrong-password": "write NAME=VALUE",
		"wrong-password y z": "there are 5 arguments", "-u redis://host/3 -c": "out of the URL", "-u host:6379": "such as redis://redis:6379",
		"-u redis://:wrong-password%zz@host": "the URL can't be read", "-p 0": "not a port", "-n -1": "must not be negative", "-c -n 1": "leave -n out",
		"--sentinel a:1": "belong together", "--cacert x": "need -tls", "-timeout 0": "must be above 0", "-c --sentinel a:1 -master m": "exclude", "-cert x": "belong together", "-key user:ann": "a client's key is no flag",
	} {
		_, errs, code := connect(t, "", strings.Fields(flags)...)
		assert.Equal(t, cli.Misused, code, flags)
		assert.Contains(t, errs, says, flags)
	}
}

func TestTLS(t *testing.T) {
	files(t, map[string]string{"p.yaml": livePolicies})
	certificate(t)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	dir, err := os.Getwd()
	require.NoError(t, err)
	cert := filepath.Join(dir, "cert.pem")
	server := redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", cert, "--tls-auth-clients", "optional")
	for name, flags := range map[string]string{
		"-cacert": "--tls --cacert cert.pem -h localhost", "another name": "--tls --cacert cert.pem --sni localhost", "a client's": "--tls --cacert cert.pem --sni localhost --cert cert.pem --key key.pem",
		"any": "--tls --insecure", "the URL": "-u rediss://localhost:" + port + " --cacert cert.pem",
	} {
		_, errs, code := connect(t, "", append([]string{"-h", "127.0.0.1", "-p", port}, strings.Fields(flags)...)...)
		assert.Equal(t, cli.OK, code, "%s: %s", name, errs)
	}
	for flags, says := range map[string]string{
		"--tls -h localhost": "by -cacert", "--tls --cacert cert.pem -h 127.0.0.1": "by -sni", "--tls --cacert p.yaml": "no certificate", "-timeout 5s": "add -tls",
	} {
		_, errs, code := connect(t, "", append([]string{"-p", port}, strings.Fields(flags)...)...)
		assert.Equal(t, cli.Unavailable, code, flags)
		assert.Contains(t, errs, says, flags)
	}
	_ = server
	if port, err = redistest.FreePort(); err != nil {
		t.Fatal(err)
	}
	strict := redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", cert, "--tls-auth-clients", "yes")
	_, errs, code := connect(t, "", "-p", port, "--tls", "--cacert", "cert.pem", "-h", "localhost", "-timeout", "5s")
	assert.Equal(t, cli.Unavailable, code)
	assert.Contains(t, errs, "give it by -cert and -key")
	_ = strict
}

// certificate puts cert.pem and key.pem for localhost into the directory.
func certificate(t *testing.T) {
	t.Helper()
	cert, key, _ := redistest.Certificate(t)
	require.NoError(t, os.Rename(cert, "cert.pem"))
	require.NoError(t, os.Rename(key, "key.pem"))
}

func TestUnixSocket(t *testing.T) {
	files(t, map[string]string{"p.yaml": livePolicies})
	socket := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Start(t, "--unixsocket", socket)
	out, errs, code := connect(t, "", "-s", socket)
	assert.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, "never used")
}

func TestSentinelNamesTheMaster(t *testing.T) {
	master, sentinel := redistest.Start(t), redistest.Start(t, "--sentinel")
	files(t, map[string]string{"p.yaml": livePolicies})
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
	defer func() { _ = c.Close() }()
	require.NoError(t, c.Monitor(t.Context(), "limits", host, port, "1").Err())
	out, errs, code := connect(t, "", "--sentinel", sentinel.Addr, "-master", "limits")
	assert.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, "never used")
	_, errs, code = connect(t, "", "--sentinel", sentinel.Addr, "-master", "limit")
	assert.Equal(t, cli.Unavailable, code)
	assert.Contains(t, errs, "no master of that name: check -master")
}

// Sentinels have a password of their own, or none, and no hint takes one for
// the other.
func TestSentinelsHaveAPasswordOfTheirOwn(t *testing.T) {
	master, sentinel := redistest.Start(t, "--requirepass", password), redistest.Start(t, "--sentinel", "--requirepass", "of-sentinel")
	open := redistest.Start(t, "--sentinel")
	files(t, map[string]string{"p.yaml": livePolicies})
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	for addr, password := range map[string]string{sentinel.Addr: "of-sentinel", open.Addr: ""} {
		c := redis.NewSentinelClient(&redis.Options{Addr: addr, Password: password})
		defer func() { _ = c.Close() }()
		require.NoError(t, c.Monitor(t.Context(), "limits", host, port, "1").Err())
	}
	for name, c := range map[string]struct {
		addr, redis, sentinel, flags, says string
		code                               int
	}{
		"both":                   {sentinel.Addr, password, "of-sentinel", "", "", cli.OK},
		"a flag":                 {sentinel.Addr, password, "", "-sentinel-password of-sentinel", "", cli.OK},
		"a user":                 {sentinel.Addr, password, "of-sentinel", "-sentinel-user default", "", cli.OK},
		"Redis' alone":           {sentinel.Addr, password, "", "", "The Sentinels want a password, which is not that of Redis: set REDISCLI_SENTINEL_AUTH", cli.Unavailable},
		"Redis' for both":        {sentinel.Addr, password, password, "", "Check the Sentinels' password", cli.Unavailable},
		"the Sentinels' alone":   {sentinel.Addr, "", "of-sentinel", "", "The server wants a password: set REDISCLI_AUTH", cli.Unavailable},
		"an open Sentinel":       {open.Addr, password, "", "", "", cli.OK},
		"none is wanted":         {open.Addr, password, "of-sentinel", "", "", cli.OK},
		"no Sentinel":            {master.Addr, password, password, "", "is no Sentinel", cli.Unavailable},
		"TLS to a plain port":    {open.Addr, password, "", "-tls -timeout 100ms", "If no TLS is spoken at this port, leave -tls out", cli.Unavailable},
		"an unknown master":      {open.Addr, password, "", "-master other", "check -master", cli.Unavailable},
		"a Sentinel as a server": {open.Addr, "", "", "-sentinel= -master= -u redis://" + open.Addr, "is a Sentinel: name it by -sentinel", cli.Misused},
	} {
		var o, e strings.Builder
		env := func(name string) string {
			return map[string]string{"REDISCLI_AUTH": c.redis, "REDISCLI_SENTINEL_AUTH": c.sentinel}[name]
		}
		line := append([]string{"get", "-policies", "p.yaml", "api", "x", "-sentinel", c.addr, "-master", "limits", "-timeout", "5s"}, strings.Fields(c.flags)...)
		code := table.Run(t.Context(), cli.Streams{Out: &o, Err: &e, Env: env}, line)
		assert.Equal(t, c.code, code, "%s: %s", name, e.String())
		assert.Contains(t, e.String(), c.says, name)
		for _, secret := range []string{password, "of-sentinel"} {
			assert.NotContains(t, o.String()+e.String(), secret, name)
		}
	}
	_, errs, code := connect(t, "", "-sentinel-user", "x")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "need -sentinel")
}

func TestCommandsWorkOnACluster(t *testing.T) {
	s := startCluster(t, 2, 0)
	s.open(t)
	for i := range 20 {
		s.use(t, fmt.Sprint("user:", i), 5)
	}
	p := []string{"-policies", "p.yaml", "-c"}
	assert.Contains(t, s.runOK(t, "list", append(p, "api")...), "api: 20 keys, 20 denied now", "all masters are asked")
	assert.Contains(t, s.runOK(t, "credit", append(p, "api", "-all", "burst", "2", "-yes")...), "of 20 keys")
	assert.Contains(t, s.runOK(t, "find", "-c", "7"), "1 key found, of 20")
	assert.Contains(t, s.runOK(t, "forget", "-c", "7"), "1 key deleted")
	assert.Contains(t, s.runOK(t, "list", append(p, "api")...), "api: 19 keys, 0 denied now")
	assert.Contains(t, s.runOK(t, "reset", append(p, "api", "user:8")...), "is reset")
	for _, policy := range []string{"api", "jobs"} { // on different masters, perhaps
		s.runOK(t, "block", append(p, policy, "user:1")...)
	}
	s.runOK(t, "override", append(p, "api", "user:2", "50/day name daily", "-for", "1h")...)
	assert.Contains(t, s.runOK(t, "exceptions", append(p, "api")...), "blocked")
	assert.Contains(t, s.runOK(t, "find", "-c", "user:1"), "1 key and 2 exceptions found, of 18")
	s.runOK(t, "unblock", append(p, "api", "user:1")...)
	assert.Contains(t, s.runOK(t, "find", "-c", "user:1"), "1 key and 1 exception found")
	out := s.runOK(t, "doctor", p...)
	assert.Equal(t, 2, strings.Count(out, "Redis 7"), "each master: %s", out)
	assert.NotRegexp(t, `(?m)^fault`, out)
	single := redistest.Start(t)
	assert.Regexp(t, `18 keys copied to .*\n  and 2 exceptions\n`, s.runOK(t, "copy", "-from-c", "redis://"+s.addr, "redis://"+single.Addr))
	assert.Contains(t, s.runOK(t, "forget", "-c", "9"), "1 key deleted")
	assert.Contains(t, s.runOK(t, "copy", "-to-c", "redis://"+single.Addr, "redis://"+s.addr), "1 key copied", "the one that is missing")
	// A client that does not know yet that a slot has moved.
	stale := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
		return []redis.ClusterSlot{{End: 16383, Nodes: []redis.ClusterNode{{Addr: s.addr}}}}, nil
	}})
	defer func() { _ = stale.Close() }()
	for i := range 5 { // on both masters
		b := redisstore.Bucket{Policy: "api", Key: fmt.Sprint("user:", 10+i)}
		copied, err := s.store.CopyTo(t.Context(), b, redisstore.New(stale, redisstore.WithTimeout(5*time.Second)), b, nil, true)
		require.NoError(t, err)
		assert.True(t, copied, "the copy follows the slot")
	}
	_, errs, code := s.run(t, "list", "-policies", "p.yaml", "api")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "is a node of a Cluster: add -c", "half of the keys would be missing")
}
