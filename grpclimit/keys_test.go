package grpclimit_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// TestConformance shows the keys that all adapters have, with peers that it
// makes up. Peers are real here.

type user struct{}

func TestKeysOfCalls(t *testing.T) {
	ctx := metadata.NewOutgoingContext(within(t), metadata.Pairs(
		"x-forwarded-for", "203.0.113.9, 127.0.0.1", "x-key-bin", "\xfb", "x-key-bin", "\xfb"))
	for name, test := range map[string]struct {
		key  grpclimit.KeyFunc
		want string
	}{
		"ByPeer":                   {grpclimit.ByPeer(), "ip:127.0.0.1"},
		"ByPeer behind a proxy":    {grpclimit.ByPeer(core.TrustProxies("127.0.0.0/8")), "ip:203.0.113.9"},
		"ByPeer, another proxy":    {grpclimit.ByPeer(core.TrustProxies("10.0.0.0/8")), "ip:127.0.0.1"},
		"ByMethod":                 {grpclimit.ByMethod(), "method:" + once},
		"ByService":                {grpclimit.ByService(), "service:" + service},
		"ByMetadata, of any bytes": {grpclimit.ByMetadata("x-key-bin"), "x-key-bin:\xfb"}, // as connectlimit's
		"own, of context and call": {func(c *grpclimit.Call) (string, error) {
			v, _ := c.Context().Value(user{}).(int)
			return c.FullMethod[:5] + string(rune('0'+v)), nil
		}, "/test7"},
		"own, of the message": {func(c *grpclimit.Call) (string, error) { return c.Message.(*text).GetValue(), nil }, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			login := func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				return handler(context.WithValue(ctx, user{}, 7), in)
			}
			limiter := perHour("calls", 1)
			require.NoError(t, call(ctx, unary(t, handlers{}, login, grpclimit.Unary(limiter, test.key))).err)
			assert.EqualValues(t, 0, limittest.Left(t, limiter, test.want), "keys are those of the adapters for HTTP")
		})
	}
}

func TestNamesOfMetadataThatCannotBe(t *testing.T) {
	for _, name := range []string{"", "a b", "é", "a:b"} {
		assert.Panics(t, func() { grpclimit.Unary(perHour("calls", 1), grpclimit.ByMetadata(name)) }, name)
	}
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
