// Package frameworks_test builds the programs of docs/adapters.md and sends
// requests to them.
package frameworks_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	kgrpc "github.com/go-kratos/kratos/v2/transport/grpc"
	khttp "github.com/go-kratos/kratos/v2/transport/http"
	"github.com/gorilla/mux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// program is a directory of this module. It answers with the key by which it has
// limited the request.
type program struct {
	dir, key string
	unrouted bool   // whether requests count that match no route
	refuse   string // the handler's last line if it answers 418, in programs that use httplimit
}

var programs = []program{
	{"beego", "ip:127.0.0.1|route:/items/:id", true, "c.Output.SetStatus(418); _ = c.Output.Body([]byte(res.Key))"},
	{"go-zero", "ip:127.0.0.1|global:/items/:id", false, "_, _ = fmt.Print(res.Key); w.WriteHeader(418)"},
	{"goframe", "ip:127.0.0.1|route:/items/{id}", true, "_ = res; r.Response.WriteStatus(418)"},
	{"gorilla-mux", "ip:127.0.0.1|route:/items/{id}", false, "_, _ = fmt.Print(res.Key); w.WriteHeader(418)"},
	{"hertz", "ip:127.0.0.1|route:/items/:id", true, ""},
	{"httprouter", "ip:127.0.0.1|global:/items/:id", false, "_, _ = fmt.Print(res.Key); w.WriteHeader(418)"},
	{"huma-chi", "ip:127.0.0.1|route:/items/{id}", true, ""},
	{"huma-gin", "ip:127.0.0.1|route:/items/:id", true, ""},
	{"kratos", "ip:127.0.0.1|route:/items/{id}", false, "return c.String(418, res.Key)"},
}

// around stands beside each program. Its clock stands still, so that no token
// comes back during a test.
const around = `

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbucket-go/ratelimit/core"
)

var (
	address = os.Getenv("ADDRESS")
	port, _ = strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	stopped = core.WithClock(func() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) })
)

func refunded(_ *http.Request, status int) bool { return status == 418 }
`

var here = strings.NewReplacer(
	`"localhost:8080"`, "address", `"localhost", 8080`, `"localhost", port`,
	"core.NewMemoryStore()", "core.NewMemoryStore(stopped)",
)

var (
	// ofRoute finds a program's own key of the route.
	ofRoute = regexp.MustCompile(`(httplimit\.Join\(httplimit\.ByIP\(\), )(byRoute|httplimit\.Global\([^)]*\))\)`)
	// answer finds the line that answers with the key.
	answer = regexp.MustCompile(`(?m)^\t.*\bres\.Key\b.*$`)
)

// buildDir is where the binary is.
var buildDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if buildDir, err = os.MkdirTemp("", "frameworks"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(buildDir) }()
	return m.Run()
}

// binary is all programs, compiled once for all tests. The environment variable
// PROGRAM names the one to run.
var binary = sync.OnceValues(func() (path string, err error) {
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/examples/frameworks", "_programs")
	add := func(name, source string) {
		set.Program(name, here.Replace(source))
		set.File(name, "around.go", "package "+name+around)
	}
	for _, p := range programs {
		text, err := os.ReadFile(p.dir + "/main.go")
		if err != nil {
			return "", err
		}
		source := string(text)
		add(packageOf(p.dir), source)
		if p.refuse == "" {
			continue
		}
		if !ofRoute.MatchString(source) || !answer.MatchString(source) {
			return "", fmt.Errorf("%s: the key or the answer was not found", p.dir)
		}
		add(packageOf(p.dir)+"_by_route", ofRoute.ReplaceAllString(source, "${1}httplimit.ByRoute())"))
		source = ofRoute.ReplaceAllString(source, "${0}, httplimit.WithRefund(refunded)")
		add(packageOf(p.dir)+"_refund", answer.ReplaceAllString(source, p.refuse))
	}
	path = filepath.Join(buildDir, "programs")
	return path, set.Build(path)
})

func packageOf(dir string) string { return strings.ReplaceAll(dir, "-", "_") }

// forEach runs a test of each program.
func forEach(t *testing.T, test func(t *testing.T, p program)) {
	t.Parallel()
	for _, p := range programs {
		t.Run(p.dir, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

func TestSixthRequestOfAMinuteIsDenied(t *testing.T) {
	forEach(t, func(t *testing.T, p program) {
		url := serve(t, packageOf(p.dir))
		for left := 4; left >= 0; left-- {
			response, body := get(t, url+"/items/7", nil)
			require.Equal(t, http.StatusOK, response.StatusCode, body)
			assert.Equal(t, fmt.Sprint(left), response.Header.Get("X-RateLimit-Remaining"))
		}
		response, body := get(t, url+"/items/8", nil)
		assert.Equal(t, http.StatusTooManyRequests, response.StatusCode)
		assert.Equal(t, "12", response.Header.Get("Retry-After"), "a token comes back every 12 s")
		assert.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
		assert.Contains(t, body, `"status":429`)
		assert.NotContains(t, body, "ip:", "the handler was not called")
	})
}

// A key has the address of the connection, whatever the client says of itself,
// and the route as the framework has it.
func TestKeyHasThePeersAddressAndTheRoute(t *testing.T) {
	forEach(t, func(t *testing.T, p program) {
		response, body := get(t, serve(t, packageOf(p.dir))+"/items/7", forged)
		require.Equal(t, http.StatusOK, response.StatusCode, body)
		assert.Equal(t, p.key, strings.Trim(body, "\"\n"))
	})
}

// forged are fields by which clients can say who they are.
var forged = http.Header{
	"X-Forwarded-For":      {"203.0.113.9"},
	"X-Real-Ip":            {"203.0.113.9"},
	"Forwarded":            {"for=203.0.113.9"},
	"Proxy-Client-Ip":      {"203.0.113.9"},
	"Wl-Proxy-Client-Ip":   {"203.0.113.9"},
	"Http_client_ip":       {"203.0.113.9"},
	"Http_x_forwarded_for": {"203.0.113.9"},
	"True-Client-Ip":       {"203.0.113.9"},
	"Cf-Connecting-Ip":     {"203.0.113.9"},
}

// These frameworks don't set Pattern in their requests.
func TestByRouteFindsNoRoute(t *testing.T) {
	forEach(t, func(t *testing.T, p program) {
		if p.refuse == "" {
			t.Skip("it does not use httplimit")
		}
		_, body := get(t, serve(t, packageOf(p.dir)+"_by_route")+"/items/7", nil)
		assert.Equal(t, "ip:127.0.0.1|route:", strings.Trim(body, "\"\n"))
	})
}

func TestByRouteSaysWhatOtherRoutersNeed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	policy := core.Policy{Name: "api", Limits: []core.Limit{core.PerMinute(5)}}
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), policy, core.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	router := mux.NewRouter()
	router.Use(httplimit.New(limiter, httplimit.ByRoute()))
	router.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/items/7", nil))
	assert.Contains(t, log.String(), "see docs/adapters.md")
}

// A mux in front has set Pattern, and so all routes of a router behind it are
// one.
func TestByRouteBehindAServeMuxIsThePatternOfThat(t *testing.T) {
	t.Parallel()
	router := mux.NewRouter()
	router.Use(httplimit.New(limiterOf(core.PerMinute(5)), httplimit.ByRoute()))
	router.HandleFunc("/api/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		res, _ := httplimit.FromContext(r.Context())
		_, _ = io.WriteString(w, res.Key)
	})
	front := http.NewServeMux()
	front.Handle("/api/", router)
	w := httptest.NewRecorder()
	front.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/items/7", nil))
	assert.Equal(t, "route:/api/", w.Body.String())
}

func TestRequestsThatMatchNoRouteCountBehindSomeRouters(t *testing.T) {
	forEach(t, func(t *testing.T, p program) {
		response, _ := get(t, serve(t, packageOf(p.dir))+"/nothing", nil)
		assert.Equal(t, http.StatusNotFound, response.StatusCode)
		_, counted := response.Header["X-Ratelimit-Remaining"]
		assert.Equal(t, p.unrouted, counted)
	})
}

// WithRefund and WithSettle get the status that the client gets.
func TestLimiterSeesTheStatus(t *testing.T) {
	forEach(t, func(t *testing.T, p program) {
		if p.refuse == "" {
			t.Skip("it does not use httplimit")
		}
		url := serve(t, packageOf(p.dir)+"_refund")
		for range 6 {
			response, body := get(t, url+"/items/7", nil)
			require.Equal(t, http.StatusTeapot, response.StatusCode, body)
			require.Equal(t, "4", response.Header.Get("X-RateLimit-Remaining"), "the token has come back")
		}
	})
}

// Services that protoc-gen-go-http makes have routes without filters.
func TestAFilterOfKratosStandsInFrontOfTheRouter(t *testing.T) {
	t.Parallel()
	server := khttp.NewServer(khttp.Filter(httplimit.New(limiterOf(core.PerMinute(1)), httplimit.ByIP())))
	server.Route("/").GET("/items/{id}", func(c khttp.Context) error { return c.String(http.StatusOK, "an item") })
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/items/7", nil))
		assert.Equal(t, want, w.Code)
	}
}

func TestGRPCOfKratosTakesTheInterceptor(t *testing.T) {
	t.Parallel()
	server := kgrpc.NewServer(kgrpc.Address("127.0.0.1:0"), kgrpc.UnaryInterceptor(grpclimit.Unary(limiterOf(core.PerMinute(1)), grpclimit.ByPeer())))
	endpoint, err := server.Endpoint()
	require.NoError(t, err)
	go func() { _ = server.Start(context.Background()) }()
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	client, err := grpc.NewClient(endpoint.Host, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		_, err := grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		assert.Equal(t, want, status.Code(err))
	}
}

func limiterOf(limit core.Limit) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "api", Limits: []core.Limit{limit}}))
}

// serve runs a program until the test ends, and returns its URL.
func serve(t *testing.T, program string) string {
	t.Helper()
	port, err := redistest.FreePort()
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", port)
	programs, err := binary()
	require.NoError(t, err)
	command := exec.Command(programs)
	command.Dir = t.TempDir() // beego and goframe look for files
	command.Env = append(os.Environ(), "PROGRAM="+program, "ADDRESS="+address)
	command.Stdout, command.Stderr = t.Output(), t.Output()
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the program does not listen")
	return "http://" + address
}

func get(t *testing.T, url string, fields http.Header) (response *http.Response, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	for name, values := range fields {
		request.Header[name] = values
	}
	response, err = http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(text)
}
