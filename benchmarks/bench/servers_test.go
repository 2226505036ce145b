package bench_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/valyala/fasthttp"

	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// In a process with APP, this program is a whole server: that app, with its
// buckets in database DB of the Redis at REDIS_ADDR. It prints its address, and
// ends with its standard input.
func TestMain(m *testing.M) {
	if name := os.Getenv("APP"); name != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		log.Fatal(serve(name, os.Getenv("REDIS_ADDR"), os.Getenv("DB")))
	}
	os.Exit(m.Run())
}

func serve(name, redisAddr, db string) error {
	n, err := strconv.Atoi(db)
	if err != nil {
		return err
	}
	c := redis.NewClient(&redis.Options{Addr: redisAddr, DB: n, ContextTimeoutEnabled: true})
	ulule, err := ululeredis.NewStore(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	a := apps[slices.IndexFunc(apps, func(a app) bool { return a.name == name })]
	handler := a.new(buckets{
		library: redisstore.New(c, patient), ulule: ulule, gin: ginRateLimitStore(c, roomy), httprate: httpRateCounter(c),
	})
	fmt.Println(l.Addr())
	return http.Serve(l, handler.(http.Handler))
}

// BenchmarkServers sends requests of 10,000 clients to whole servers, each in a
// process of its own, whose buckets are in Redis. Each connection sends its
// next request when the last one is answered.
func BenchmarkServers(b *testing.B) {
	clients := names(10_000)
	redisServer := redistest.Start(b)
	measured := slices.DeleteFunc(slices.Clone(apps), func(a app) bool { return a.keys == 0 })
	servers := make([]*fasthttp.HostClient, len(measured))
	for i, a := range measured {
		servers[i] = a.start(b, redisServer.Addr, i+1)
		require.NoError(b, atOnce(16, len(clients), func(n int) error { return a.get(servers[i], clients[n]) }))
		if a.sends != "" {
			database := redis.NewClient(&redis.Options{Addr: redisServer.Addr, DB: i + 1})
			contender{redisPeer: redisPeer{name: a.name, keys: a.keys}, client: database}.hasKeys(b, len(clients))
			require.NoError(b, database.Close())
		}
	}
	for _, connections := range []int{8, 64} {
		for i, a := range measured {
			b.Run(fmt.Sprintf("connections=%d/peer=%s", connections, a.name), func(b *testing.B) {
				took := make([]time.Duration, b.N)
				spread(b, connections, func(n int) error {
					began := time.Now()
					err := a.get(servers[i], clients[n%len(clients)])
					took[n] = time.Since(began)
					return err
				})
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns/op")
			})
		}
	}
}

// start runs the app in a process that ends with the benchmark.
func (a app) start(b *testing.B, redisAddr string, db int) *fasthttp.HostClient {
	b.Helper()
	program, err := os.Executable()
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, program)
	process.Env = append(os.Environ(), "APP="+a.name, "REDIS_ADDR="+redisAddr, "DB="+strconv.Itoa(db))
	process.Stderr = os.Stderr
	_, err = process.StdinPipe()
	require.NoError(b, err)
	out, err := process.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, process.Start())
	b.Cleanup(func() {
		cancel()
		_ = process.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(b, err, a.name)
	return &fasthttp.HostClient{Addr: strings.TrimSpace(addr), MaxConns: 512}
}

// get sends a request of one client. It must pass.
func (a app) get(server *fasthttp.HostClient, client string) error {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	request.SetRequestURI("http://" + server.Addr + path)
	request.Header.Set(keyField, client)
	err := server.Do(request, response)
	sent := len(response.Header.Peek(cmp.Or(a.sends, "Date")))
	if err == nil && (response.StatusCode() != http.StatusOK || sent == 0) {
		err = fmt.Errorf("%s answers %d with %s", a.name, response.StatusCode(), &response.Header)
	}
	return err
}
