package grpclimit_test

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// served serves any method as a stream on l, by serve, until the test ends, and
// returns a connection of a client that dials by dial.
func served(t *testing.T, serve func(*grpc.Server), dial func(context.Context) (net.Conn, error), interceptor grpc.StreamServerInterceptor) *grpc.ClientConn {
	t.Helper()
	s := grpc.NewServer(grpc.StreamInterceptor(interceptor), grpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error { return echo(ss) }))
	go serve(s)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func serveGRPC(s *grpc.Server, l net.Listener) { _ = s.Serve(l) }

// serveHTTP serves s by the server of net/http.
func serveHTTP(s *grpc.Server, l net.Listener) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	_ = (&http.Server{Handler: s, Protocols: &protocols}).Serve(l)
}

func TestTheNameOfAClientsSocketIsNotItsAddress(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, test := range []struct {
		socket string
		serve  func(s *grpc.Server, l net.Listener)
		key    grpclimit.KeyFunc
		want   codes.Code
	}{
		{"192.0.2.7:1", serveGRPC, grpclimit.ByPeer(), codes.InvalidArgument},
		{"192.0.2.7:2", serveGRPC, grpclimit.ByPeer(core.TrustProxies("unix:")), codes.OK},
		{"192.0.2.7:3", serveHTTP, grpclimit.ByPeer(), codes.InvalidArgument},
		{"192.0.2.7:4", serveHTTP, grpclimit.ByPeer(core.TrustProxies("unix:")), codes.OK},
	} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "server"), Net: "unix"})
		require.NoError(t, err)
		limiter := perHour("calls", 1)
		conn := served(t, func(s *grpc.Server) { test.serve(s, l) }, func(context.Context) (net.Conn, error) {
			return net.DialUnix("unix", &net.UnixAddr{Name: test.socket, Net: "unix"}, l.Addr().(*net.UnixAddr))
		}, grpclimit.Stream(limiter, test.key))
		ctx := metadata.AppendToOutgoingContext(within(t), "x-forwarded-for", "203.0.113.9")
		assert.Equal(t, test.want, status.Code(say(open(ctx, t, conn))))
		assert.EqualValues(t, 1, limittest.Left(t, limiter, "ip:192.0.2.7"), "a client must not choose its address by the name of its socket")
		require.NoError(t, l.Close())
	}
}

// Servers route /a/b/c to the service a/b.
func TestMethodsThatLookLikeHealthChecksAreNotSkipped(t *testing.T) {
	for method, want := range map[string]bool{
		"/grpc.health.v1.Health/Watch":                                   true,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/grpc.health.v1.Health/x/y":                                     false,
		"//grpc.health.v1.Health/Check":                                  false,
		"/grpc.health.v1.Health":                                         false,
		"/grpc.health.v1.Healthy/Check":                                  false,
		"/my.grpc.health.v1.Health/Check":                                false,
		"/":                                                              false,
		"":                                                               false,
	} {
		assert.Equal(t, want, grpclimit.HealthAndReflection(&grpclimit.Call{FullMethod: method}), method)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn := served(t, func(s *grpc.Server) { _ = s.Serve(l) }, func(context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		grpclimit.Stream(perHour("calls", 1), all, grpclimit.WithSkip(grpclimit.HealthAndReflection)))
	for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
		cs, err := conn.NewStream(within(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/grpc.health.v1.Health/x/y")
		require.NoError(t, err)
		assert.Equal(t, want, status.Code(say(cs)), "a method that a client made up for grpc.UnknownServiceHandler is limited")
	}
}

func TestAKeyFunctionWhoseOwnCallEndsWithTheClientsHasNotFailed(t *testing.T) {
	asked := make(chan struct{})
	users := unary(t, handlers{once: func(ctx context.Context, in *text) (*text, error) { close(asked); <-ctx.Done(); return in, nil }})
	var lines bytes.Buffer
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(1)}}, core.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))))
	answered := make(chan error, 1)
	watch := func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		out, err := handler(ctx, in)
		answered <- err
		return out, err
	}
	conn := unary(t, handlers{}, watch, grpclimit.Unary(limiter, func(c *grpclimit.Call) (string, error) {
		return "user", users.Invoke(c.Context(), once, hello(), new(text))
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_ = call(ctx, conn)
	assert.Equal(t, codes.Canceled, status.Code(<-answered), "the client has gone: that is no failure of the service")
	assert.Empty(t, lines.String())
}

func TestADeniedMessageHasTheFieldsAsTrailers(t *testing.T) {
	limiter, other := perHour("messages", 2), perHour("others", 9)
	for name, interceptor := range map[string]grpc.StreamServerInterceptor{
		"one limiter":      grpclimit.Stream(limiter, all, grpclimit.PerMessage()),
		"several limiters": grpclimit.StreamTogether([]grpclimit.Rule{{Limiter: limiter, Key: all}, {Limiter: other, Key: all}}, grpclimit.PerMessage()),
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, limiter.Reset(t.Context(), "all"))
			cs := open(within(t), t, streams(t, handlers{}, interceptor))
			require.NoError(t, say(cs))
			require.NoError(t, say(cs))
			require.Equal(t, codes.ResourceExhausted, status.Code(say(cs)))
			header, err := cs.Header()
			require.NoError(t, err)
			assert.Empty(t, header.Get("ratelimit"), "messages that pass have no fields")
			assert.Contains(t, strings.Join(cs.Trailer().Get("ratelimit"), ", "), `"messages";r=0;`)
			assert.Len(t, cs.Trailer().Get("retry-after"), 1)
		})
	}
}

// A handler may go on without the token, such as with a cheaper answer.
func TestADenialThatTheHandlerIgnoresStopsNoRetries(t *testing.T) {
	tenant := perHour("tenant", 1)
	var tries atomic.Int32
	h := handlers{once: func(ctx context.Context, in *text) (*text, error) {
		if _, err := grpclimit.Allow(ctx, tenant, "t"); err != nil && in.GetValue() == "strict" {
			return nil, err
		}
		if tries.Add(1) == 2 {
			return nil, status.Error(codes.Unavailable, "busy")
		}
		return in, nil
	}}
	conn := serve(t, h, []grpc.UnaryServerInterceptor{grpclimit.Unary(perHour("calls", 9), all)}, nil, grpc.WithDefaultServiceConfig(retries))
	require.NoError(t, call(within(t), conn).err)
	a := call(within(t), conn)
	assert.NoError(t, a.err, "the client tries again")
	assert.EqualValues(t, 3, tries.Load())
	assert.Empty(t, a.trailer.Get("grpc-retry-pushback-ms"), "the call is not denied")
	err := conn.Invoke(within(t), once, &text{Value: "strict"}, new(text), grpc.Trailer(&a.trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Equal(t, []string{"-1"}, a.trailer.Get("grpc-retry-pushback-ms"), "a call that is denied has it")
}

// localTransport is that of a call in process, as gateways make it.
type localTransport struct {
	mu              sync.Mutex
	header, trailer metadata.MD
}

func (*localTransport) Method() string                    { return once }
func (x *localTransport) SetHeader(md metadata.MD) error  { return x.join(&x.header, md) }
func (x *localTransport) SendHeader(md metadata.MD) error { return x.join(&x.header, md) }
func (x *localTransport) SetTrailer(md metadata.MD) error { return x.join(&x.trailer, md) }
func (x *localTransport) join(to *metadata.MD, md metadata.MD) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	*to = metadata.Join(*to, md)
	return nil
}

func TestACallInTheHandlerOfAnotherPaysToo(t *testing.T) {
	limiter := perHour("calls", 2)
	intercept := grpclimit.Unary(limiter, all)
	makes := func(ctx context.Context, handler grpc.UnaryHandler) (*localTransport, error) {
		x := new(localTransport)
		_, err := intercept(grpc.NewContextWithServerTransportStream(ctx, x), hello(), &grpc.UnaryServerInfo{FullMethod: once}, handler)
		return x, err
	}
	var inner, third *localTransport
	var innerErr, thirdErr error
	outer, err := makes(t.Context(), func(ctx context.Context, in any) (any, error) {
		passes := func(context.Context, any) (any, error) { return in, nil }
		inner, innerErr = makes(ctx, passes)
		third, thirdErr = makes(ctx, passes)
		return in, nil
	})
	require.NoError(t, err)
	require.NoError(t, innerErr)
	assert.Equal(t, codes.ResourceExhausted, status.Code(thirdErr), "each call takes a token")
	assert.Len(t, outer.header.Get("ratelimit"), 1, "each call has its own fields")
	assert.Len(t, inner.header.Get("ratelimit"), 1)
	assert.Len(t, third.trailer.Get("ratelimit"), 1)
	assert.Empty(t, outer.trailer.Get("grpc-retry-pushback-ms"))
}

func TestAServerBehindNetHTTP(t *testing.T) {
	var lines bytes.Buffer
	before := log.Writer()
	log.SetOutput(&lines)
	t.Cleanup(func() { log.SetOutput(before) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn := served(t, func(s *grpc.Server) { serveHTTP(s, l) }, func(context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, grpclimit.Stream(perHour("calls", 1), grpclimit.ByPeer()))
	t.Cleanup(func() { _ = l.Close() })
	cs := open(within(t), t, conn)
	require.NoError(t, say(cs))
	header, err := cs.Header()
	require.NoError(t, err)
	assert.Len(t, header.Get("ratelimit"), 1)
	cs = open(within(t), t, conn)
	err = say(cs)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Len(t, cs.Trailer().Get("ratelimit"), 1)
	assert.NotContains(t, lines.String(), "invalid trailer", "all fields can be trailers")
}

// The keys are those of connectlimit, whose test of this name has the same
// fields.
func TestBinaryFieldsAreOneKeyHoweverTheyAreEncoded(t *testing.T) {
	got := make(chan string, 1)
	read := grpclimit.ByMetadata("x-key-bin")
	s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error { return nil }),
		grpc.StreamInterceptor(grpclimit.Stream(perHour("calls", 999), func(c *grpclimit.Call) (string, error) {
			key, err := read(c)
			got <- key
			return key, err
		})))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	want := "x-key-bin:\xfb"
	for last := range 16 {
		text := "+" + "wxyz0123456789+/"[last:last+1]
		for _, values := range [][]string{{text}, {text + "=="}, {text, "+w=="}} {
			r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://"+l.Addr().String()+once, bytes.NewReader(make([]byte, 5)))
			require.NoError(t, err)
			r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "X-Key-Bin": values}
			res, err := transport.RoundTrip(r)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			select {
			case key := <-got:
				assert.Equal(t, want, key, "%q", values)
			case <-r.Context().Done():
				t.Fatalf("%q: the call was not decided", values)
			}
		}
	}
}
