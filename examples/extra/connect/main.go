// Connect handlers for clients of Connect, gRPC and gRPC-Web. An address may
// send 300 calls a minute, and a user 60 and two streams at a time. Replace
// users, the limits and the handlers; the rest can stay. In this directory:
//
//	REDIS_URL=redis://localhost:6379 go run .
//	curl -i -H 'Content-Type: application/json' -H 'X-Api-Key: ann-secret' -d '"Ann"' localhost:8080/demo.v1.Demo/Greet
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/promlimit"
)

// Your generated code has constants for procedures.
const (
	greet = "/demo.v1.Demo/Greet"
	count = "/demo.v1.Demo/Count"
)

// app returns the service. Count sends a number at each tick.
func app(store core.Store, observe core.LimiterOption, tick time.Duration, proxies ...string) http.Handler {
	limiter := func(name string, limits ...core.Limit) *core.Limiter {
		return core.Must(core.NewLimiter(store, core.Policy{Name: name, Limits: limits}, observe))
	}
	perAddress := limiter("address", core.PerMinute(300).WithBurst(100))
	calls := limiter("calls", core.PerMinute(60).WithBurst(30))
	streams := limiter("streams", core.InFlight(2))

	// By the verified user. By the field X-Api-Key each made-up value would
	// have a full bucket.
	byUser := connectlimit.ByContextValue(userKey{})
	bounded := connect.WithReadMaxBytes(64 << 10) // of a message when it is unpacked: by default there is no bound
	perCall := connect.WithInterceptors(connectlimit.New(calls, byUser))
	perStream := connect.WithInterceptors(connectlimit.New(calls, byUser), connectlimit.New(streams, byUser))

	mux := http.NewServeMux()
	type (
		request = connect.Request[wrapperspb.StringValue]
		text    = connect.Response[wrapperspb.StringValue]
		number  = connect.Request[wrapperspb.Int32Value]
		stream  = connect.ServerStream[wrapperspb.StringValue]
	)
	mux.Handle(greet, connect.NewUnaryHandler(greet, func(_ context.Context, in *request) (*text, error) {
		return connect.NewResponse(wrapperspb.String("Hello, " + in.Msg.GetValue() + "!")), nil
	}, perCall, bounded))
	counting := connect.NewServerStreamHandler(count, func(ctx context.Context, in *number, s *stream) error {
		for i := range in.Msg.GetValue() {
			if err := s.Send(wrapperspb.String(strconv.Itoa(int(i)))); err != nil {
				return err
			}
			select {
			case <-time.After(tick):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}, perStream, bounded)
	mux.Handle(count, lasting(5*time.Minute, counting))

	outer := http.NewServeMux()
	outer.HandleFunc("GET /health", health)
	outer.Handle("/", authenticate(mux))
	// In front of the keys, or guessing at them would be free, and by net/http:
	// interceptors of a call run when its message was read and unpacked. It
	// counts requests without a route too.
	return httplimit.New(perAddress, httplimit.ByIP(core.TrustProxies(proxies...)), httplimit.WithSkip(isHealth))(outer)
}

func isHealth(r *http.Request) bool { return r.URL.Path == "/health" }

// lasting lets a stream last for so long, in place of the server's
// WriteTimeout.
func lasting(d time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d)) // net/http has it
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withHTTP2 has a server speak HTTP/2 without TLS too, as clients of gRPC need
// it.
func withHTTP2(s *http.Server) *http.Server {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100, SendPingTimeout: time.Minute}
	return s
}

type userKey struct{} // of the request's context

func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := userOf(r.Header.Get("X-Api-Key"))
		if user == "" {
			http.Error(w, "unknown API key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

func health(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// users has the user of each API key, by its hash. Yours are random, and in
// your database.
var users = map[[sha256.Size]byte]string{
	sha256.Sum256([]byte("ann-secret")): "ann", sha256.Sum256([]byte("bob-secret")): "bob",
}

// userOf returns whose key it is, or "". It takes as long for all.
func userOf(key string) (user string) {
	got := sha256.Sum256([]byte(key))
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
		redis, err := redisstore.Open(url, redisstore.WithPrefix("connect-example:"))
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
	proxies := strings.Fields(strings.ReplaceAll(os.Getenv("TRUSTED_PROXIES"), ",", " "))
	handler := app(store, core.WithObserver(metrics.Observe), time.Second, proxies...)
	public := withHTTP2(newServer(cmp.Or(os.Getenv("ADDR"), "localhost:8080"), handler))
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
