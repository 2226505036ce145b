package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
)

// BenchmarkUnary is what an interceptor adds to a call, without the transport.
func BenchmarkUnary(b *testing.B) {
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-api-key", "k"))
	ctx = grpc.NewContextWithServerTransportStream(ctx, transport{})
	handler := func(context.Context, any) (any, error) { return "an answer", nil }
	for name, key := range map[string]grpclimit.KeyFunc{"peer": grpclimit.ByPeer(), "metadata": byKey} {
		for style, headers := range map[string]core.HeaderStyle{"fields": core.HeadersIETF, "no-fields": core.HeadersNone} {
			b.Run(name+"/"+style, func(b *testing.B) {
				intercept := grpclimit.Unary(limiterOf(core.Policy{Name: "calls", Headers: headers, Limits: []core.Limit{core.PerSecond(1_000_000_000)}}), key)
				info := &grpc.UnaryServerInfo{FullMethod: once}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := intercept(ctx, nil, info, handler); err != nil {
						b.Fatal("the premise: calls pass: ", err)
					}
				}
			})
		}
	}
}

// transport takes metadata as the server's stream does.
type transport struct{}

func (transport) Method() string               { return once }
func (transport) SetHeader(metadata.MD) error  { return nil }
func (transport) SendHeader(metadata.MD) error { return nil }
func (transport) SetTrailer(metadata.MD) error { return nil }
