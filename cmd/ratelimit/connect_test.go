package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestPasswordsAndWhatToDo(t *testing.T) {
	server := redistest.Start(t, "--requirepass", password)
	write(t, nil)
	t.Setenv(urlVariable, "redis://:"+password+"@"+server.Addr+"/3")
	port, err := redistest.FreePort()
	require.NoError(t, err)
	closed := "127.0.0.1:" + port
	expect(t, []expected{
		says("get api x", "nothing is stored"), says("get api x -u redis://default:" + password + "@" + server.Addr),
		says("get --help", "default $REDIS_URL"),
		unavailable("get api x -u redis://"+server.Addr, "Redis wants a password: put it into the URL in REDIS_URL"),
		unavailable("get api x -u redis://ann:"+password+"@"+server.Addr, "Check the user and the password in the URL"),
		unavailable("get api x -u redis://:"+password+"@"+server.Addr+"/99", "DB index is out of range"),
		unavailable("get api x -u redis://:"+password+"@"+closed, "Redis at "+closed, "Check the address, and that the server runs"),
		unavailable("get api x -u redis://"+closed+"?master_name=limits&password="+password, "the master limits of Sentinel at "+closed),
		misuses("get api x -u redis://host?pasword="+password, "a password is none: redis://:password@host:6379/0"),
		misuses("get api x -u redis://host?master_name=limits&pasword="+password, "options that go-redis knows"),
		misuses("get api x -u redis://host?master_name=limits&addr=:"+password+"@host:26379", "options that go-redis knows"),
		misuses("get api x -u redis://host?master_name=limits&addr=a,"+password+":26379", "must name one server"),
		misuses("get api x redis://:" + password + "@host"), misuses("get api x y redis://:" + password + "@host"), misuses("get api x -a" + password),
		misuses("redis://:" + password + "@host"), misuses("get api x --rate redis://:" + password + "@host"),
		misuses("get api x -u redis://host?pool_size=-1", "an option that no client can have"), misuses("get api x --cacert ca.pem", "need TLS"), misuses("get api x -u rediss://host --cert cert.pem", "belong together"),
		misuses("get api x --rate -1", "--rate"), misuses("get api", "accepts 2 arg(s), received 1"),
	})
}

// The command reads an address as redisstore.Open does, wherever it comes from:
// what it refuses may be a password at the wrong place.
func TestAnAddressThatIsRefusedIsNotShown(t *testing.T) {
	write(t, nil)
	for _, address := range []string{
		"redis:7401", "redis://:" + password + "%zz@host", "host:6380,password=" + password + ",ssl=True", "host:6379?master_name=limits&password=" + password,
	} {
		for _, line := range []string{"get api x -u '" + address + "'", "get api x", "doctor"} {
			t.Setenv(urlVariable, address)
			expect(t, []expected{misuses(line, "the URL of Redis (--url or $REDIS_URL) must ", "redis://")})
		}
	}
}

// unavailable is what a command line says that can't read what it names.
func unavailable(line string, says ...string) expected {
	return expected{line, exitUnavailable, says}
}

func TestTLS(t *testing.T) {
	write(t, nil)
	cert, key, _ := redistest.Certificate(t)
	port, err := redistest.FreePort()
	require.NoError(t, err)
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "yes")
	url := "rediss://localhost:" + port
	require.NoError(t, os.WriteFile("none.pem", nil, 0o600))
	expect(t, []expected{
		says("get api x -u "+url+" --cacert "+cert+" --cert "+cert+" --cert-key "+key, "nothing is stored"),
		unavailable("get api x -u "+url, "by --cacert"), unavailable("get api x -u "+url+" --cacert "+cert, "--cert and --cert-key"),
		unavailable("get api x -u "+url+" --cacert none.pem", "no certificate"), unavailable("get api x -u "+url+" --cacert lost.pem", "lost.pem"),
		unavailable("get api x -u redis://localhost:"+port, "write rediss://"),
	})
}

// A command that is interrupted says so.
func TestInterruption(t *testing.T) {
	s := serve(t, nil)
	s.use(t, "api", "ann", 1, daily)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"list", "get api ann", "block api ann", "reset api ann", "doctor", "top http://127.0.0.1:1/admin/limits"} {
		var out, errs bytes.Buffer
		assert.Equal(t, exitInterrupted, run(ctx, strings.Fields(line), strings.NewReader(""), &out, &errs), line)
		assert.Contains(t, errs.String(), "context canceled", line)
	}
	out, _, _ := command(t, "list")
	assert.Contains(t, out, "1 key\n", "nothing was changed")
}

// A URL that names Sentinels leads to their master.
func TestSentinels(t *testing.T) {
	s := serve(t, nil)
	s.use(t, "api", "ann", 1, daily)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "redis://"))
	require.NoError(t, err)
	sentinel := redistest.Start(t, "--sentinel")
	c := redis.NewSentinelClient(&redis.Options{Addr: sentinel.Addr})
	defer func() { _ = c.Close() }()
	require.NoError(t, c.Monitor(t.Context(), "limits", host, port, "1").Err())
	expect(t, []expected{
		says("list -u redis://"+sentinel.Addr+"?master_name=limits", "1 key\n  api  ann  9 of 10 tokens left"),
		says("doctor -u redis://" + sentinel.Addr + "?master_name=limits"),
		misuses("list -u redis://"+sentinel.Addr, "is a Sentinel: add ?master_name=NAME"),
		unavailable("list -u redis://"+sentinel.Addr+"?master_name=other", "the master other of Sentinel at "+sentinel.Addr),
	})
}

// startCluster starts a Cluster of masters with the same share of the slots,
// and has commands run on it.
func startCluster(t *testing.T, masters int) (servers []*redistest.Server, s *service) {
	t.Helper()
	s = serve(t, map[string]string{"p.yaml": apiFile})
	servers = redistest.Cluster(t, masters, false, "--cluster-require-full-coverage", "no")
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].Addr}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	s.redis = client
	s.store = redisstore.New(client, redisstore.WithTimeout(time.Minute), core.WithClock(func() time.Time { return storeClock() }))
	t.Setenv(urlVariable, "redis://"+servers[0].Addr)
	return servers, s
}

// Of a Cluster commands see all masters. If one fails, they show what the others
// have, name it, and end with 3.
func TestCluster(t *testing.T) {
	servers, s := startCluster(t, 3)
	for i := range 30 {
		s.use(t, "api", fmt.Sprint("value:user:", i), 10, daily)
	}
	dead := servers[2]
	var there, elsewhere []string
	for i := range 30 {
		key := fmt.Sprint("value:user:", i)
		node, err := s.redis.(*redis.ClusterClient).MasterForKey(t.Context(), "ratelimit:api:"+key)
		require.NoError(t, err)
		if node.Options().Addr == dead.Addr {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	expect(t, []expected{
		says("list api --policies p.yaml", "api: 30 keys, 30 denied now"), says("doctor --policies p.yaml", "30 keys: api 30"),
		says("reset api "+there[0], "reset, so every limit is full"), says("block api " + there[1]),
	})
	dead.Kill()
	found := fmt.Sprintf("api: %d keys, %d denied now", len(elsewhere), len(elsewhere))
	expect(t, []expected{
		finds("get api "+elsewhere[0]+" --policies p.yaml", "denied: daily is used up"), says("reset api " + elsewhere[0]),
		finds("doctor --policies p.yaml", "fault  node", dead.Addr+": master that fails", "FAILOVER FORCE"),
	})
	out, errs, code := command(t, "list api --policies p.yaml")
	assert.Equal(t, exitUnavailable, code)
	assert.Contains(t, out, strings.Replace(found, fmt.Sprint(len(elsewhere), " "), fmt.Sprint(len(elsewhere)-1, " "), 2))
	assert.Contains(t, errs, dead.Addr)
	assert.Contains(t, errs, "keys or exceptions are missing above")
}

func TestDoctorFindsFaults(t *testing.T) {
	s := serve(t, map[string]string{"p.yaml": apiFile})
	s.use(t, "api", "ann", 2, perMinute, daily)
	expect(t, []expected{says("doctor --policies p.yaml", "1 key: api 1", "every limit was last used with the capacity that the file gives it", "every key can be read", "may do what decisions, slots and resets do")})
	n, err := s.redis.DBSize(t.Context()).Result()
	require.NoError(t, err)
	assert.Equal(t, int64(1), n, "it leaves no key behind")

	s.use(t, "api", "bob", 2, perMinute, core.PerDay(5).WithName("daily"))
	s.use(t, "old", "bob", 2, daily)
	require.NoError(t, s.redis.Set(t.Context(), "ratelimit:api:broken", "not a bucket", time.Hour).Err())
	require.NoError(t, s.redis.ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	require.NoError(t, s.redis.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	expect(t, []expected{
		finds("doctor --policies p.yaml", "fault  eviction", "maxmemory-policy is allkeys-lru", "fault  unreadable   1 key can't be read, such as api broken",
			"fault  definitions  api, limit daily: 1 of 2 keys were last used under another definition, of capacity 5 or another rate, the latest at 2026-03-02 11:50:00 UTC",
			"note   policies     keys of policies that the file lacks: old 1"),
		finds("doctor", "definitions  not compared"),
	})
	out, _, _ := printed(t, "", "doctor", "--store-timeout", "1us")
	assert.Contains(t, out, "fault  round trip")
}

func TestDoctorFindsMissingRights(t *testing.T) {
	s := serve(t, nil)
	user := func(name, rules string) string {
		require.NoError(t, s.redis.Do(t.Context(), slices.Concat([]any{"ACL", "SETUSER", name, "on", ">" + password}, anys(strings.Fields(rules)))...).Err())
		return "redis://" + name + ":" + password + "@" + strings.TrimPrefix(s.url, "redis://")
	}
	text, err := os.ReadFile(docs("operations.md"))
	require.NoError(t, err)
	_, rules, _ := strings.Cut(string(text), "ACL SETUSER limiter on >secret ")
	rules, _, found := strings.Cut(rules, "\n")
	require.True(t, found, "the premise: the page has the user of limiters")
	s.use(t, "api", "ann", 10, daily)
	documented := user("documented", rules)
	expect(t, []expected{
		says("doctor -u "+documented, "may do what decisions, slots and resets do", "Listing needs +scan"), says("get api ann -u " + documented), says("reset api ann -u " + documented),
		unavailable("list -u "+documented, "list and reset --all-of need scan too"),
	})
	for missing, rules := range map[string]string{"eval": "~ratelimit:* -@all +@connection +time +info", "slots": rules + " -zadd", "releases": rules + " -zrem", "del": rules + " -del", "elsewhere": "~elsewhere:* +@all"} {
		expect(t, []expected{finds("doctor -u "+user(missing, rules), "fault  rights")})
	}
}

// docs is the path of a page, from any directory.
func docs(page string) string { return filepath.Join(home, "../../docs", page) }

// home is the directory of this package.
var home = func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return dir
}()

func anys(list []string) []any {
	values := make([]any, len(list))
	for i, v := range list {
		values[i] = v
	}
	return values
}

// A replica takes no changes, and may lack what its master has.
func TestReplicas(t *testing.T) {
	s := serve(t, nil)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "redis://"))
	require.NoError(t, err)
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	expect(t, []expected{
		misuses("get api ann -u redis://"+replica.Addr, "is a replica: name its master"),
		finds("doctor -u redis://"+replica.Addr, "fault  version", "a replica"),
	})
}
