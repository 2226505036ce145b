package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	pb "google.golang.org/grpc/examples/helloworld/helloworld"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/store"
	"github.com/tokenbucket-go/ratelimit/internal/bothstores"
)

func TestClientsHaveOneBucketInBothServers(t *testing.T) {
	bothstores.Run(t, func(t *testing.T, newStore func(store.Option) core.Store) {
		stopped := time.Now() // so that no token comes back meanwhile
		rpc, web, err := newServers(newStore(core.WithClock(func() time.Time { return stopped })))
		require.NoError(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() { _ = rpc.Serve(l) }()
		t.Cleanup(rpc.Stop)
		server := httptest.NewServer(web)
		t.Cleanup(server.Close)
		conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		hello := func(key string) error {
			_, err := pb.NewGreeterClient(conn).SayHello(metadata.AppendToOutgoingContext(ctx, "x-api-key", key), &pb.HelloRequest{Name: "Ann"})
			return err
		}
		get := func(key string) int {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/hello?name=Ann", nil)
			require.NoError(t, err)
			r.Header.Set("X-Api-Key", key)
			res, err := server.Client().Do(r)
			require.NoError(t, err)
			_ = res.Body.Close()
			return res.StatusCode
		}
		for i := range 3 {
			require.NoError(t, hello("k-1"), "call %d", i+1)
		}
		assert.Equal(t, http.StatusOK, get("k-1"), "the fourth")
		assert.Equal(t, http.StatusOK, get("k-1"), "the fifth")
		assert.Equal(t, http.StatusTooManyRequests, get("k-1"), "the sixth, by HTTP")
		err = hello("k-1")
		require.Equal(t, codes.ResourceExhausted, status.Code(err), "the sixth, by gRPC")
		for _, d := range status.Convert(err).Details() {
			if retry, ok := d.(*errdetails.RetryInfo); ok {
				assert.Equal(t, 12*time.Second, retry.GetRetryDelay().AsDuration(), "a token comes every 12 s")
			}
		}
		assert.NoError(t, hello("k-2"), "another client")
		assert.Equal(t, codes.InvalidArgument, status.Code(hello("")), "without a key")
		passed := 0
		for i := range 50 { // as many by HTTP as by gRPC
			if get(fmt.Sprint("made-up-", i)) == http.StatusOK {
				passed++
			}
			if hello(fmt.Sprint("made-up-too-", i)) == nil {
				passed++
			}
		}
		assert.Equal(t, 21, passed, "made-up keys get what their address has: 30, without the 9 calls until here")
		for range 10 {
			_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
			require.NoError(t, err, "health checks are free")
		}
	})
}
