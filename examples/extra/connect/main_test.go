package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/internal/hostile"
)

// serveHTTP2 serves on loopback, with HTTP/1.1 and HTTP/2 without TLS as main does, and returns a client that speaks HTTP/2.
func serveHTTP2(t *testing.T, handler http.Handler) (url string, client *http.Client) {
	t.Helper()
	both, h2 := new(http.Protocols), new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	h2.SetUnencryptedHTTP2(true)
	s := httptest.NewUnstartedServer(handler)
	s.Config.Protocols = both
	s.Start()
	t.Cleanup(s.Close)
	transport := &http.Transport{Protocols: h2}
	t.Cleanup(transport.CloseIdleConnections)
	return s.URL, &http.Client{Transport: transport}
}

// newStore returns a store whose clock stands still, so that no token comes
// back on a slow machine.
func newStore() core.Store {
	stopped := time.Now()
	return core.NewMemoryStore(core.WithClock(func() time.Time { return stopped }))
}

func TestClientsOfEachProtocol(t *testing.T) {
	for protocol, option := range map[string]connect.ClientOption{
		connect.ProtocolConnect: connect.WithProtoJSON(), connect.ProtocolGRPC: connect.WithGRPC(), connect.ProtocolGRPCWeb: connect.WithGRPCWeb(),
	} {
		t.Run(protocol, func(t *testing.T) {
			url, client := serveHTTP2(t, app(newStore(), none(), time.Hour))
			greets := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](client, url+greet, option)
			call := func(key string) (*connect.Response[wrapperspb.StringValue], error) {
				req := connect.NewRequest(wrapperspb.String("Ann"))
				req.Header().Set("X-Api-Key", key)
				return greets.CallUnary(t.Context(), req)
			}
			for range 30 {
				res, err := call("ann-secret")
				require.NoError(t, err)
				assert.Equal(t, "Hello, Ann!", res.Msg.GetValue())
				assert.Contains(t, res.Header().Values("RateLimit-Policy"), `"calls";q=30;w=30`)
			}
			_, err := call("ann-secret")
			var denial *connect.Error
			require.ErrorAs(t, err, &denial)
			assert.Equal(t, connect.CodeResourceExhausted, denial.Code())
			assert.NotEmpty(t, denial.Meta().Get("Retry-After"))
			assert.Len(t, denial.Details(), 2)
			_, err = call("bob-secret")
			assert.NoError(t, err, "another user has a bucket of her own")
			for _, key := range []string{"made-up", ""} {
				_, err = call(key)
				assert.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err))
			}

			counts := connect.NewClient[wrapperspb.Int32Value, wrapperspb.StringValue](client, url+count, option)
			open := func(ctx context.Context) error {
				req := connect.NewRequest(wrapperspb.Int32(2))
				req.Header().Set("X-Api-Key", "bob-secret")
				s, err := counts.CallServerStream(ctx, req)
				if err != nil {
					return err
				}
				s.Receive()
				return s.Err()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			require.NoError(t, open(ctx))
			require.NoError(t, open(ctx))
			require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(open(ctx)), "a third stream at once")
			cancel()
			require.Eventually(t, func() bool { return open(t.Context()) == nil }, time.Minute, time.Millisecond, "slots of streams whose client has gone come back")
		})
	}
}

func TestMain(m *testing.M) { hostile.Main(m, main) }

func none() core.LimiterOption { return core.WithObserver(nil) }

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, greet, strings.NewReader(`"Ann"`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Api-Key", key)
	return r
}

func TestAHostileClient(t *testing.T) {
	hostile.Run(t, func(t *testing.T, store core.Store) hostile.App {
		return hostile.App{
			Server: withHTTP2(newServer("", app(store, none(), time.Hour))), Request: request,
			Attacker: "ann-secret", Victim: "bob-secret", PerKey: 30, PerAddress: 100,
		}
	})
}

func TestDeploy(t *testing.T) {
	hostile.Deploy(t, func() *http.Request { return request("ann-secret") })
}

// A client of grpc-go whose service config retries denials, and that a pushback tells when.
const retries = `{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
	"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`

func dial(t *testing.T, url string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(retries))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestAClientOfGRPC(t *testing.T) {
	url, _ := serveHTTP2(t, app(newStore(), none(), time.Hour))
	conn := dial(t, url)
	call := func() (header, trailer metadata.MD, err error) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "ann-secret")
		err = conn.Invoke(ctx, greet, wrapperspb.String("Ann"), new(wrapperspb.StringValue), grpc.Header(&header), grpc.Trailer(&trailer))
		return header, trailer, err
	}
	for range 30 {
		header, _, err := call()
		require.NoError(t, err)
		assert.Len(t, header.Get("ratelimit"), 2, "of the address and of the key")
	}
	header, trailer, err := call()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Len(t, header.Get("ratelimit"), 1, "of the address, by net/http")
	assert.Len(t, trailer.Get("ratelimit"), 1)
	assert.Len(t, trailer.Get("retry-after"), 1)
	var retry *errdetails.RetryInfo
	for _, d := range status.Convert(err).Details() {
		if d, ok := d.(*errdetails.RetryInfo); ok {
			retry = d
		}
	}
	assert.NotNil(t, retry, "apps read when to retry from the details")
}

// This is why connectlimit sends no grpc-retry-pushback-ms. If it fails, gRPC clients have learnt to retry Connect's answers, or Connect
// to send trailers alone: then send the pushback as grpclimit does.
func TestAClientOfGRPCDoesNotRetryAnswersOfConnectHandlers(t *testing.T) {
	var tries atomic.Int32
	count := connectlimit.OnDenied(func(*connectlimit.Call, core.Result) error {
		tries.Add(1)
		err := connect.NewError(connect.CodeResourceExhausted, nil)
		err.Meta().Set("Grpc-Retry-Pushback-Ms", "1")
		return err
	})
	none := connectlimit.WithCost(func(*connectlimit.Call) (int64, error) { return 9, nil })
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Headers: core.HeadersNone, Limits: []core.Limit{core.PerMinute(5)}}))
	mux := http.NewServeMux()
	mux.Handle(greet, connect.NewUnaryHandler(greet, func(context.Context, *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
		return nil, connect.NewError(connect.CodeInternal, nil)
	}, connect.WithInterceptors(connectlimit.New(limiter, connectlimit.Global("all"), none, count))))
	url, _ := serveHTTP2(t, mux)
	var trailer metadata.MD
	err := dial(t, url).Invoke(t.Context(), greet, wrapperspb.String(""), new(wrapperspb.StringValue), grpc.Trailer(&trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	assert.Equal(t, []string{"1"}, trailer.Get("grpc-retry-pushback-ms"), "the premise: the client gets the pushback")
	assert.EqualValues(t, 1, tries.Load(), "the client does not try again")
}
