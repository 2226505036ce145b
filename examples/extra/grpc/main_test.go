package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip" // registers it for the server too
	pb "google.golang.org/grpc/examples/helloworld/helloworld"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
	"github.com/tokenbucket-go/ratelimit/internal/redistest"
)

func TestMain(m *testing.M) { hostile.Main(m, main) }

func none() core.LimiterOption { return core.WithObserver(nil) }

// request stands for a call: its header is the metadata, and its path the
// method.
func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, pb.Greeter_SayHello_FullMethodName, nil)
	r.Header.Set("X-Api-Key", key)
	return r
}

func dial(t *testing.T, ip, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(
		func(ctx context.Context, addr string) (net.Conn, error) {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
			return dialer.DialContext(ctx, "tcp", addr)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// statusOf is the status by which HTTP says what a code means.
func statusOf(err error) int {
	switch status.Code(err) {
	case codes.OK:
		return http.StatusOK
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.Unimplemented:
		return http.StatusNotFound
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// call sends a call in place of a request.
func call(t *testing.T, conn *grpc.ClientConn, r *http.Request) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, values := range r.Header {
		for _, value := range values {
			if name != "Content-Length" {
				ctx = metadata.AppendToOutgoingContext(ctx, name, value)
			}
		}
	}
	return conn.Invoke(ctx, r.URL.Path, &pb.HelloRequest{Name: "Ann"}, new(pb.HelloReply))
}

// closer is a server as hostile.Run needs it.
type closer struct{ *grpc.Server }

func (c closer) Close() error {
	c.Stop()
	return nil
}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		conns := map[string]*grpc.ClientConn{}
		return hostile.App{
			Server: closer{app(store, none(), timeouts{2 * time.Second, 2 * time.Second})}, Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 30, PerAddress: 100,
			Send: func(ip string, r *http.Request) int {
				if conns[ip] == nil {
					conns[ip] = dial(t, ip, r.URL.Host)
				}
				return statusOf(call(t, conns[ip], r))
			},
			// They speak HTTP/1.1: here are others. The server closes idle connections after minutes.
			Skip: []string{"aborted requests", "unfinished requests", "bodies that grow", "slow readers", "many connections"},
		}
	})
}

func start(t *testing.T, within timeouts) (addr string) {
	t.Helper()
	now := time.Now()
	store := core.NewMemoryStore(core.WithClock(func() time.Time { return now }))
	server := app(store, none(), within)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

var generous = timeouts{time.Minute, time.Minute}

func TestMessagesAreBoundedAlsoWhenTheyAreUnpacked(t *testing.T) {
	conn := dial(t, "127.0.0.1", start(t, generous))
	for _, packed := range []grpc.CallOption{grpc.EmptyCallOption{}, grpc.UseCompressor(gzip.Name)} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "ann-secret")
		_, err := pb.NewGreeterClient(conn).SayHello(ctx, &pb.HelloRequest{Name: strings.Repeat("a", 1<<20)}, packed)
		assert.Equal(t, codes.ResourceExhausted, status.Code(err))
		assert.ErrorContains(t, err, "larger than max")
	}
}

// A connection that says nothing, and a call that never sends its message, end.
func TestUnfinishedCallsEnd(t *testing.T) {
	addr := start(t, timeouts{time.Second, time.Second})
	silent, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer silent.Close()
	require.NoError(t, silent.SetReadDeadline(time.Now().Add(time.Minute)))
	for err == nil { // until the server closes it
		_, err = silent.Read(make([]byte, 100))
	}
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server keeps it")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := dial(t, "127.0.0.1", addr).NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, pb.Greeter_SayHello_FullMethodName)
	require.NoError(t, err)
	err = s.RecvMsg(new(pb.HelloReply))
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "the server ended the call")
}

func TestHealthChecksAreFree(t *testing.T) {
	conn := dial(t, "127.0.0.1", start(t, generous))
	for range 150 {
		_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
	}
}

func TestTheProgramEndsAtSIGTERMAndAnswersBefore(t *testing.T) {
	p := hostile.Start(t, "")
	conn := dial(t, "127.0.0.1", p.Addr)
	require.NoError(t, call(t, conn, request("ann-secret")))
	p.Terminate(t)
	p.Wait(t)
}

// While Redis is away the process limits alone.
func TestRedisLostAndBack(t *testing.T) {
	server := redistest.Start(t)
	p := hostile.Start(t, server.Addr)
	conn := dial(t, "127.0.0.1", p.Addr)
	answer := func() {
		code := status.Code(call(t, conn, request("ann-secret")))
		require.Contains(t, []codes.Code{codes.OK, codes.ResourceExhausted}, code)
	}
	answer()
	server.Kill()
	for range 20 {
		answer()
	}
	server.Restart(t)
	keys := server.Client(t)
	require.Eventually(t, func() bool {
		answer()
		n, err := keys.DBSize(t.Context()).Result()
		return err == nil && n > 0
	}, time.Minute, 10*time.Millisecond, "Redis is back, and gets no calls")
}

func TestAWrongAddressOfRedisEndsTheProgram(t *testing.T) {
	assert.Contains(t, hostile.Fail(t, "REDIS_URL=localhost:6379").Log.String(), "REDIS_URL")
}
