package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/inspect"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestCopyMovesToAnotherServer(t *testing.T) {
	from, to := own(t), own(t)
	for _, key := range []string{"ann", "bob", strings.Repeat("long", 50)} {
		from.use(t, key, 3)
	}
	res, err := from.jobs.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	to.use(t, "bob", 5)
	_, _, code := from.run(t, "copy", "redis://"+from.addr, "redis://"+from.addr+"/0")
	assert.Equal(t, cli.Misused, code, "a copy onto itself")
	out := from.runOK(t, "copy", "-dry-run", "redis://"+from.addr, "redis://"+to.addr)
	assert.Contains(t, out, "4 keys would be copied")
	out = from.runOK(t, "copy", "redis://"+from.addr, "redis://"+to.addr)
	assert.Contains(t, out, "3 keys copied to Redis at "+to.addr)
	assert.Contains(t, out, "1 not: TO has them")
	left := func(s *service, key string) int64 {
		res, err := s.api.Peek(t.Context(), key)
		require.NoError(t, err)
		return res.Remaining
	}
	for key, want := range map[string]int64{"ann": 2, "bob": 0, strings.Repeat("long", 50): 2} {
		assert.Equal(t, want, left(to, key), "%.10s", key)
	}
	ttl := func(s *service) time.Duration { return s.client.PTTL(t.Context(), "ratelimit:api:ann").Val() }
	assert.InDelta(t, ttl(from), ttl(to), float64(time.Minute), "the TTL is copied")
	found, err := inspect.Key(t.Context(), to.jobs, "ann")
	require.NoError(t, err)
	assert.Equal(t, int64(1), found.Limits[0].Held, "slots in use are copied")
	_, errs, code := from.run(t, "copy", "-policy", "ap", "redis://"+from.addr, "redis://"+to.addr)
	assert.Equal(t, cli.Misused, code, "a policy that FROM does not have")
	assert.Contains(t, errs, "policy ap has no keys at Redis at "+from.addr+": did you mean api?")
	assert.Contains(t, from.runOK(t, "copy", "-replace", "-policy", "api", "redis://"+from.addr, "redis://"+to.addr), "3 keys copied")
	assert.Equal(t, int64(2), left(to, "bob"))
	require.NoError(t, res.Release(t.Context()))
}

func TestCopyRenamesAPolicy(t *testing.T) {
	s := own(t)
	require.NoError(t, os.WriteFile("r.yaml", []byte("- {name: public, limits: [1000/day, {tokens: 5000/day hold 1h}, 3 at once hold 1h, {name: mine, capacity: 7, refill_rate: 1, refill_interval: 24h}]}\n"), 0o600))
	limits := []core.Limit{
		core.PerDay(1000), core.PerDay(5000).WithUnit("tokens").WithMaxHold(time.Hour), core.InFlight(3).WithMaxHold(time.Hour),
		core.PerDay(1).WithBurst(7).WithName("mine"),
	}
	before := core.Must(core.NewLimiter(s.store, core.Policy{Name: "api", Limits: limits}))
	after := core.Must(core.NewLimiter(s.store, core.Policy{Name: "public", Limits: limits}))
	res, err := before.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	url := "redis://" + s.addr
	out := s.runOK(t, "copy", "-policies", "r.yaml", "-rename", "api=public", url, url)
	assert.Contains(t, out, "1 key copied")
	want, err := before.Peek(t.Context(), "ann")
	require.NoError(t, err)
	got, err := after.Peek(t.Context(), "ann")
	require.NoError(t, err)
	for i, limit := range want.Limits() {
		assert.Equal(t, limit.Remaining, got.Limits()[i].Remaining, "%s keeps its tokens as %s", limit.Limit.Name, got.Limits()[i].Limit.Name)
		assert.Less(t, limit.Remaining, limit.Limit.Capacity, "the premise: all are in use")
	}
	found, err := inspect.Key(t.Context(), after, "ann")
	require.NoError(t, err)
	assert.Zero(t, found.Others, "no limit of the old name is left")
	_, errs, code := s.run(t, "copy", "-rename", "api=public", url, url)
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "needs -policies")
	_, errs, code = s.run(t, "copy", "-policies", "r.yaml", "-rename", "a=b", url, url)
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "neither policy is in")
}

// copyAs runs copy with environment variables.
func copyAs(t *testing.T, env map[string]string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e strings.Builder
	code = table.Run(t.Context(), cli.Streams{Out: &o, Err: &e, Env: func(name string) string { return env[name] }}, append([]string{"copy", "-rate", "0", "-timeout", "5s"}, args...))
	for _, secret := range []string{password, "of-the-new-one", "wrong-password"} {
		assert.NotContains(t, o.String()+e.String(), secret, "no output has a password: %v", args)
	}
	return o.String(), e.String(), code
}

func TestCopyHasFlagsForEachSide(t *testing.T) {
	from := own(t)
	from.use(t, "ann", 3)
	require.NoError(t, from.client.(*redis.Client).ConfigSet(t.Context(), "requirepass", password).Err())
	certificate(t)
	dir, err := os.Getwd()
	require.NoError(t, err)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	cert := filepath.Join(dir, "cert.pem")
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", cert, "--tls-auth-clients", "yes", "--requirepass", "of-the-new-one")
	plain, secure := "redis://"+from.addr, "rediss://localhost:"+port
	both := map[string]string{"REDISCLI_FROM_AUTH": password, "REDISCLI_TO_AUTH": "of-the-new-one"}
	client := " -to-cert cert.pem -to-key key.pem"
	for name, c := range map[string]struct {
		env   map[string]string
		flags string
		from  string
		to    string
	}{
		"the side's variables":            {env: both, flags: "-to-cacert cert.pem" + client},
		"one variable for the other side": {env: map[string]string{"REDISCLI_AUTH": password, "REDISCLI_TO_AUTH": "of-the-new-one"}, flags: "-to-cacert cert.pem" + client},
		"the side's flags":                {flags: "-from-a " + password + " -to-a of-the-new-one -to-cacert cert.pem" + client},
		"before those for both":           {flags: "-a " + password + " -to-a of-the-new-one -to-cacert cert.pem" + client},
		"URLs before those for both":      {flags: "-a wrong-password -to-cacert cert.pem" + client, from: "redis://:" + password + "@" + from.addr, to: "rediss://:of-the-new-one@localhost:" + port},
		"files for what uses TLS":         {env: both, flags: "-cacert cert.pem -cert cert.pem -key key.pem"},
		"-to-tls":                         {env: both, flags: "-to-tls -to-cacert cert.pem" + client, to: "redis://localhost:" + port},
		"another name":                    {env: both, flags: "-to-sni localhost -to-cacert cert.pem" + client, to: "rediss://127.0.0.1:" + port},
		"any certificate":                 {env: both, flags: "-to-insecure" + client, to: "rediss://127.0.0.1:" + port},
		"another database":                {env: both, flags: "-to-n 3 -to-cacert cert.pem" + client},
		"another user":                    {env: both, flags: "-to-user default -to-cacert cert.pem" + client},
	} {
		out, errs, code := copyAs(t, c.env, append(strings.Fields(c.flags), "-replace", cmp.Or(c.from, plain), cmp.Or(c.to, secure))...)
		assert.Equal(t, cli.OK, code, "%s: %s", name, errs)
		assert.Contains(t, out, "1 key copied to Redis at ", name)
	}
	out, errs, code := copyAs(t, map[string]string{"REDISCLI_FROM_AUTH": "of-the-new-one", "REDISCLI_TO_AUTH": password}, append(strings.Fields("-from-cacert cert.pem -from-n 3"+strings.ReplaceAll(client, "-to-", "-from-")), "-to-n=4", secure, plain)...)
	assert.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, "1 key copied", "what was written into database 3")
	for flags, c := range map[string]struct {
		env  map[string]string
		says string
		code int
	}{
		"":                             {both, "by -to-cacert", cli.Unavailable},
		"-to-cacert cert.pem":          {both, "give it by -to-cert and -to-key", cli.Unavailable},
		"-to-cacert lost.pem":          {both, "lost.pem", cli.Unavailable},
		"-from-cacert cert.pem":        {both, "-from-cacert, -from-cert, -from-key, -from-sni and -from-insecure need -from-tls", cli.Misused},
		"-to-cert cert.pem":            {both, "-to-cert and -to-key belong together", cli.Misused},
		"-to-n x":                      {both, "-to-n: this value can't be read", cli.Misused},
		"-to-cluster":                  {both, "copy has no flag -to-cluster", cli.Misused},
		"-to-sentinel a:1":             {both, "-to-sentinel host:port,… and -to-master NAME belong together", cli.Misused},
		"-to-cacert cert.pem -c":       {both, "leave -c and -from-c out", cli.Unavailable},
		"-to-cacert cert.pem" + client: {map[string]string{"REDISCLI_FROM_AUTH": password, "REDISCLI_TO_AUTH": "wrong-password"}, "Check the password in REDISCLI_TO_AUTH, -to-a or the URL", cli.Unavailable},
		"-from-user nobody":            {both, "Check the password in REDISCLI_FROM_AUTH, -from-a or the URL, and -from-user", cli.Unavailable},
	} {
		_, errs, code := copyAs(t, c.env, append(strings.Fields(flags), plain, secure)...)
		assert.Equal(t, c.code, code, "%q: %s", flags, errs)
		assert.Contains(t, errs, c.says, "%q", flags)
	}
	_, errs, code = copyAs(t, nil, "-cacert", "cert.pem", plain, plain+"/3")
	assert.Equal(t, cli.Misused, code)
	assert.Contains(t, errs, "need -tls", "a certificate for nobody")
}

func TestCopyFromTheMasterThatSentinelNames(t *testing.T) {
	files(t, map[string]string{"p.yaml": livePolicies})
	master, _, _, flags := watched(t, 0, 3)
	other := redistest.Start(t)
	s := &service{client: master.Client(t), addr: master.Addr, prefix: "ratelimit:"}
	s.open(t)
	s.use(t, "ann", 3)
	out, errs, code := copyAs(t, nil, "-from-sentinel", flags[1], "-from-master", "limits", "redis://", "redis://"+other.Addr)
	assert.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, "1 key copied to Redis at "+other.Addr)
	out, errs, code = copyAs(t, nil, "-to-sentinel", flags[1], "-to-master", "limits", "-to-prefix", "shop:", "redis://"+other.Addr, "redis://")
	assert.Equal(t, cli.OK, code, errs)
	assert.Contains(t, out, "1 key copied to the master limits at "+master.Addr)
}

// A name that FROM does not have is a mistake, and nothing is copied.
func TestCopyOfAPolicyThatDoesNotExist(t *testing.T) {
	from, to := own(t), own(t)
	from.use(t, "ann", 3)
	require.NoError(t, from.store.SetException(t.Context(), "blocks", redisstore.Exception{Key: "bob"}))
	require.NoError(t, os.WriteFile("r.yaml", []byte("- {name: public, limits: [10/day]}\n- {name: quiet, limits: [10/day]}\n"), 0o600))
	urls := []string{"redis://" + from.addr, "redis://" + to.addr}
	for flags, says := range map[string]string{
		"-policy apis":                        "policy apis has no keys at Redis at " + from.addr + ": did you mean api?",
		"-policy exports":                     "policy exports has no keys at Redis at " + from.addr + " (there are api, blocks)",
		"-policies r.yaml -rename apo=public": "policy apo has no keys at Redis at " + from.addr + ": did you mean api?",
		"-policies r.yaml -rename api=public -rename block=quiet":           "policy block has no keys at Redis at " + from.addr + ": did you mean blocks?",
		"-policies r.yaml -policy public -from-prefix ratelimit:x: -to-n 1": "0 keys copied",
	} {
		out, errs, code := from.run(t, "copy", append(strings.Fields(flags), urls...)...)
		if strings.Contains(says, "copied") { // the file has it: nobody uses it now
			assert.Equal(t, cli.OK, code, errs)
			assert.Contains(t, out, says, flags)
			continue
		}
		assert.Equal(t, cli.Misused, code, flags)
		assert.Contains(t, errs, says, flags)
	}
	assert.Empty(t, to.client.Keys(t.Context(), "*").Val(), "nothing is copied")
	assert.Contains(t, from.runOK(t, "copy", append([]string{"-policy", "blocks"}, urls...)...), "and 1 exception", "a policy with exceptions alone")
}
