// A tool server (Model Context Protocol). An address may send 300 requests a
// minute; a user may call a tool 20 times a minute, and has a part of the text
// that all users together may get. The language model reads in a refusal when
// to try again. Replace users, the limits and the tool; the rest can stay. In
// this directory:
//
//	REDIS_URL=redis://localhost:6379 go run .   # streamable HTTP on http://localhost:8080, with Authorization: Bearer ann-secret
//	go run . -stdio                             # on stdin and stdout, as a client starts it
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// app serves the tools by HTTP. Without sessions: a client could open as many
// as it likes.
func app(store core.Store, observe core.LimiterOption, proxies ...string) http.Handler {
	perAddress := core.Must(core.NewLimiter(store, core.Policy{
		Name:   "address",
		Limits: []core.Limit{core.PerMinute(300).WithBurst(100)},
	}, observe))
	server := tools(store, observe)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, PropagateRequestCancellation: true})

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.Handle("/", auth.RequireBearerToken(verify, nil)(handler))
	// In front of the tokens, or guessing at them would be free.
	return httplimit.New(perAddress, httplimit.ByIP(core.TrustProxies(proxies...)), httplimit.WithSkip(isHealth))(mux)
}

func isHealth(r *http.Request) bool { return r.URL.Path == "/health" }

// maxText is how many bytes one call may return. It is charged before the work,
// so no call makes a debt.
const maxText = 2000

// tools returns the server of the tool repeat.
func tools(store core.Store, observe core.LimiterOption) *mcp.Server {
	limiter := func(name string, limits ...core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: limits}, observe))
	}
	calls := limiter("calls", core.PerMinute(20))
	text := limiter("text", core.PerHour(100_000).WithUnit("bytes"))
	textOfUser := limiter("text-of-user", core.PerHour(20_000).WithUnit("bytes")) // or one user could use up all others' too

	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "v1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "repeat", Description: "repeats a text"}, repeat)
	byUser := mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession()) // on stdio a session is the one client
	server.AddReceivingMiddleware(
		mcplimit.New(calls, mcplimit.Join(byUser, mcplimit.ByTool("repeat")), mcplimit.RefuseAsToolResult()),
		mcplimit.NewTogether([]mcplimit.Rule{{Limiter: textOfUser, Key: byUser}, {Limiter: text, Key: mcplimit.Global("text")}},
			mcplimit.RefuseAsToolResult(),
			mcplimit.WithUnits(func(*mcplimit.Call) (core.Units, error) { return core.Units{"bytes": maxText}, nil }),
			mcplimit.WithSettle(func(c *mcplimit.Call) core.Units {
				return core.Units{"bytes": min(size(c.Result), maxText)} // errors of the SDK can be longer: they quote what was sent
			})),
	)
	return server
}

type repeatArguments struct {
	Text  string `json:"text"`
	Times int    `json:"times" jsonschema:"how often to repeat the text, from 1 to 100"`
}

func repeat(_ context.Context, _ *mcp.CallToolRequest, in repeatArguments) (*mcp.CallToolResult, any, error) {
	times := min(max(in.Times, 1), 100)
	if len(in.Text) > maxText/times {
		return nil, nil, fmt.Errorf("the text would have more than %d bytes", maxText)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat(in.Text, times)}}}, nil, nil
}

// size is how much text a tool returned, in bytes.
func size(result mcp.Result) (bytes int64) {
	if r, ok := result.(*mcp.CallToolResult); ok {
		for _, content := range r.Content {
			if text, ok := content.(*mcp.TextContent); ok {
				bytes += int64(len(text.Text))
			}
		}
	}
	return bytes
}

// verify finds the user of a bearer token, by whom mcplimit.ByTokenSubject
// limits.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user := userOf(token)
	if user == "" {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
}

// users has the user of each bearer token, by its hash. Yours are random, and
// in your database.
var users = map[[sha256.Size]byte]string{
	sha256.Sum256([]byte("ann-secret")): "ann", sha256.Sum256([]byte("bob-secret")): "bob",
}

// userOf returns whose token it is, or "". It takes as long for all.
func userOf(token string) (user string) {
	got := sha256.Sum256([]byte(token))
	for want, name := range users {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			user = name
		}
	}
	return user
}

// What follows is the same in all examples.

// main reads ADDR, where clients connect; ADMIN_ADDR, which clients must not
// reach; REDIS_URL; and TRUSTED_PROXIES, the addresses or ranges of proxies in
// front.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var store core.Store = core.NewMemoryStore()
	if url := os.Getenv("REDIS_URL"); url != "" {
		redis, err := redisstore.Open(url, redisstore.WithPrefix("mcp-example:"))
		if err == nil {
			err = redis.Ping(ctx)
		}
		if err != nil {
			log.Fatalf("REDIS_URL: %v", err) // else each replica would limit alone, and nobody would notice
		}
		defer redis.Close()
		store = redis
	}
	metrics := promlimit.New()
	prometheus.MustRegister(metrics)
	if slices.Contains(os.Args, "-stdio") {
		log.Print(tools(store, core.WithObserver(metrics.Observe)).Run(ctx, &mcp.StdioTransport{}))
		return
	}
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	handler := app(store, core.WithObserver(metrics.Observe), proxies...)
	public := newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), handler)
	admin := newServer(cmp.Or(os.Getenv("ADMIN_ADDR"), "localhost:8081"), promhttp.Handler())
	if err := serve(ctx, public, admin); err != nil {
		log.Fatal(err)
	}
}

// newServer bounds whatever a client could make large, or never finish.
func newServer(addr string, handler http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: http.MaxBytesHandler(handler, 64<<10), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
	}
}

// grace is how long requests may run on after SIGTERM.
var grace = 15 * time.Second

// serve serves until ctx ends, as it does by SIGTERM. It returns when all
// requests have ended. After grace it cancels those that still run, so that
// their handlers return and their slots come back.
func serve(ctx context.Context, servers ...*http.Server) error {
	requests, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, len(servers))
	for _, s := range servers {
		l, err := net.Listen("tcp", s.Addr)
		if err != nil {
			return err
		}
		log.Printf("listening on http://%s", l.Addr())
		s.BaseContext = func(net.Listener) context.Context { return requests }
		go func() { failed <- s.Serve(l) }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	time.AfterFunc(grace, cancel)
	atMost, done := context.WithTimeout(context.Background(), grace+5*time.Second)
	defer done()
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Shutdown(atMost))
	}
	return errors.Join(errs...)
}
