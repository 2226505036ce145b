package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/cli"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// own returns a service with a server of its own.
func own(t *testing.T, args ...string) *service {
	t.Helper()
	server := redistest.Start(t, args...)
	s := &service{client: server.Client(t), addr: server.Addr, prefix: "ratelimit:"}
	s.open(t)
	return s
}

func TestDoctorFindsNothingWrong(t *testing.T) {
	s := own(t)
	s.use(t, "ann", 2)
	s.use(t, "vip", 2)
	res, err := s.jobs.AllowUnits(t.Context(), "ann", core.Units{"tokens": 300})
	require.NoError(t, err)
	require.True(t, res.Allowed)
	out := s.runOK(t, "doctor", "-policies", "p.yaml", "-store-timeout", "5s")
	assert.NotRegexp(t, `(?m)^fault`, out)
	assert.Contains(t, out, "3 keys: api 2, jobs 1")
	assert.Contains(t, out, "every limit was last used as the file defines it")
	keys, err := s.client.Keys(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Len(t, keys, 3, "it leaves no key behind: %v", keys)
	out = s.runOK(t, "doctor", "-json", "redis://"+s.addr)
	assert.True(t, json.Valid([]byte(out)))
}

func TestDoctorFindsFaults(t *testing.T) {
	s := own(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	s.use(t, "ann", 2)
	// A deployment by mistake: the same names, and a smaller quota.
	policy := s.api.Policy()
	policy.Limits[1].Capacity = 10
	wrong := core.Must(core.NewLimiter(s.store, policy))
	_, err := wrong.Allow(t.Context(), "bob")
	require.NoError(t, err)
	policy.Name, policy.Limits, policy.Overrides = "old-name", policy.Limits[:1], nil
	_, err = core.Must(core.NewLimiter(s.store, policy)).Allow(t.Context(), "bob")
	require.NoError(t, err)
	s.client.Set(t.Context(), "ratelimit:api:secret-client", "not a bucket", time.Minute)
	for range 600 {
		s.client.Eval(t.Context(), "return '"+redistest.Prefix()+"'", nil)
	}
	out, errs, code := s.run(t, "doctor", "-policies", "p.yaml", "-keys", "hide", "-store-timeout", "1us")
	assert.Equal(t, cli.Found, code, errs)
	for _, says := range []string{
		"fault  eviction     " + s.addr + ": maxmemory-policy is allkeys-lru", "noeviction",
		"fault  round trip", "redisstore.WithTimeout",
		"fault  scripts      " + s.addr + ": 60", "SCRIPT FLUSH",
		"fault  unreadable   1 key can't be read, such as api ", "ratelimit reset",
		"fault  definitions  api, limit daily: 1 of 2 keys were last used under another definition, of capacity 10 ",
		"note   policies     keys of policies that the file lacks: old-name 1",
	} {
		assert.Contains(t, out, says)
	}
	assert.NotContains(t, out, "secret-client", "keys are personal data")
}

func TestDoctorFindsMissingRights(t *testing.T) {
	s := own(t)
	user := func(name, rules string) string {
		args := []any{"ACL", "SETUSER", name}
		for _, r := range append([]string{"on", ">" + password}, strings.Fields(rules)...) {
			args = append(args, r)
		}
		require.NoError(t, s.client.(*redis.Client).Do(t.Context(), args...).Err())
		return "redis://" + name + ":" + password + "@" + s.addr
	}
	documented := "~ratelimit:* -@all +@connection +evalsha +eval +get +set +setrange +hset +hget +hdel +hgetall +hlen +pexpire +pttl +del +time +info"
	out := s.runOK(t, "doctor", "-store-timeout", "5s", user("documented", documented))
	assert.Contains(t, out, "may do what decisions, slots and resets do")
	assert.Contains(t, out, "may not list keys")
	s.use(t, "ann", 2)
	for _, key := range []string{"ann", "nobody"} {
		out = s.runOK(t, "get", "-policies", "p.yaml", "-u", user("documented", documented), "api", key)
		assert.Contains(t, out, "allowed", "a limiter's rights are enough for get")
	}
	assert.Contains(t, s.runOK(t, "reset", "-policies", "p.yaml", "-u", user("documented", documented), "api", "ann"), "is reset")
	for missing, rules := range map[string]string{
		"eval": "~ratelimit:* -@all +@connection +time +info", "hset": documented + " -hset", "del": documented + " -del", "elsewhere": "~elsewhere:* +@all",
	} {
		out, errs, code := s.run(t, "doctor", user(missing, rules))
		assert.Equal(t, cli.Found, code, errs)
		assert.Regexp(t, `fault  rights .*(NOPERM|permission|access|can't run)`, out, missing)
		assert.NotContains(t, out+errs, password)
	}
}

func TestDoctorOfAReplica(t *testing.T) {
	master := redistest.Start(t)
	host, port := at(t, master.Addr)[1], at(t, master.Addr)[3]
	s := own(t, "--replicaof", host+" "+port)
	require.Eventually(t, func() bool { return s.client.Info(t.Context(), "replication").Val() != "" }, 10*time.Second, 10*time.Millisecond)
	out, errs, code := s.run(t, "doctor")
	assert.Equal(t, cli.Found, code, errs)
	assert.Contains(t, out, "a replica")
	assert.Contains(t, out, "Limits need the master")
}
