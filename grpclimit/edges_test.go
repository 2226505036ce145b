package grpclimit_test

import (
	"bytes"
	"context"
	"log"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/grpclimit"
)

// served serves any method as a stream, by serve, until the test ends, and
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

func TestAServerBehindNetHTTP(t *testing.T) {
	var lines bytes.Buffer
	before := log.Writer()
	log.SetOutput(&lines)
	t.Cleanup(func() { log.SetOutput(before) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dial := func(context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
	conn := served(t, func(s *grpc.Server) { serveHTTP(s, l) }, dial, grpclimit.Stream(perHour("calls", 1), grpclimit.ByPeer()))
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

// localTransport is that of a call in process, as gateways make it.
type localTransport struct{ header, trailer metadata.MD }

func (*localTransport) Method() string                    { return once }
func (x *localTransport) SetHeader(md metadata.MD) error  { return join(&x.header, md) }
func (x *localTransport) SendHeader(md metadata.MD) error { return join(&x.header, md) }
func (x *localTransport) SetTrailer(md metadata.MD) error { return join(&x.trailer, md) }

func join(to *metadata.MD, md metadata.MD) error { *to = metadata.Join(*to, md); return nil }

func TestACallInTheHandlerOfAnotherPaysToo(t *testing.T) {
	intercept := grpclimit.Unary(perHour("calls", 2), all)
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
