// Package frameworks_test builds the programs of docs/frameworks.md and sends
// requests to them.
package frameworks_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/onebinary"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

// programs are the directories of this module, and what each program answers:
// the key by which it has limited the request.
var programs = []struct {
	dir, key string
	// byRoute is the key of the same program with httplimit.ByRoute in place of
	// its own key of the route. It is empty if the program has no own one.
	byRoute string
}{
	{dir: "beego", key: "ip:127.0.0.1|route:/items/:id", byRoute: "ip:127.0.0.1|route:"},
	{dir: "go-zero", key: "ip:127.0.0.1|global:/items/:id", byRoute: "ip:127.0.0.1|route:"},
	{dir: "goframe", key: "ip:127.0.0.1|route:/items/{id}", byRoute: "ip:127.0.0.1|route:"},
	{dir: "gorilla-mux", key: "ip:127.0.0.1|route:/items/{id}", byRoute: "ip:127.0.0.1|route:"},
	{dir: "hertz", key: "ip:127.0.0.1|route:/items/:id"},
	{dir: "httprouter", key: "ip:127.0.0.1|global:/items/:id", byRoute: "ip:127.0.0.1|route:"},
	{dir: "huma-chi", key: "ip:127.0.0.1|route:/items/{id}"},
	{dir: "huma-gin", key: "ip:127.0.0.1|route:/items/:id"},
	{dir: "kratos", key: "ip:127.0.0.1|route:/items/{id}", byRoute: "ip:127.0.0.1|route:"},
}

// stopped is a clock that stands still, so that no token comes back during a
// test.
const stopped = `
var (
	address = os.Getenv("ADDRESS")
	port, _ = strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	stopped = core.WithClock(func() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) })
)
`

var here = strings.NewReplacer(
	`"localhost:8080"`, "address", `"localhost", 8080`, `"localhost", port`,
	"core.NewMemoryStore()", "core.NewMemoryStore(stopped)",
)

// ofRoute finds a program's own key of the route.
var ofRoute = regexp.MustCompile(`(httplimit\.Join\(httplimit\.ByIP\(\), )(byRoute|httplimit\.Global\([^)]*\))`)

// binary is all programs. PROGRAM names the one to run.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "frameworks")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "programs")
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build() error {
	set := onebinary.New("github.com/tokenbucket-go/ratelimit/examples/frameworks", "_programs")
	add := func(name, source string) {
		set.Program(name, here.Replace(source))
		set.File(name, "stopped.go", "package "+name+"\n\nimport (\n\t\"os\"\n\t\"strconv\"\n\t\"strings\"\n\t\"time\"\n\n"+
			"\t\"github.com/tokenbucket-go/ratelimit/core\"\n)\n"+stopped)
	}
	for _, p := range programs {
		source, err := os.ReadFile(p.dir + "/main.go")
		if err != nil {
			return err
		}
		add(packageOf(p.dir), string(source))
		if p.byRoute != "" {
			if !ofRoute.Match(source) {
				return fmt.Errorf("%s: no key of the route found", p.dir)
			}
			add(packageOf(p.dir)+"_by_route", ofRoute.ReplaceAllString(string(source), "${1}httplimit.ByRoute()"))
		}
	}
	return set.Build(binary)
}

func packageOf(dir string) string { return strings.ReplaceAll(dir, "-", "_") }

func TestSixthRequestOfAMinuteIsDenied(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		t.Run(p.dir, func(t *testing.T) {
			t.Parallel()
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
}

// A key has the address of the connection, whatever the client says of itself,
// and the route as the framework has it.
func TestKeyHasThePeersAddressAndTheRoute(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		t.Run(p.dir, func(t *testing.T) {
			t.Parallel()
			response, body := get(t, serve(t, packageOf(p.dir))+"/items/7", forged)
			require.Equal(t, http.StatusOK, response.StatusCode, body)
			assert.Equal(t, p.key, strings.Trim(body, "\"\n"))
		})
	}
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
	t.Parallel()
	for _, p := range programs {
		if p.byRoute == "" {
			continue
		}
		t.Run(p.dir, func(t *testing.T) {
			t.Parallel()
			_, body := get(t, serve(t, packageOf(p.dir)+"_by_route")+"/items/7", nil)
			assert.Equal(t, p.byRoute, strings.Trim(body, "\"\n"))
		})
	}
}

// serve runs a program until the test ends, and returns its URL.
func serve(t *testing.T, program string) string {
	t.Helper()
	port, err := redistest.FreePort()
	require.NoError(t, err)
	address := net.JoinHostPort("127.0.0.1", port)
	command := exec.Command(binary)
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
