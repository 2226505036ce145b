package grpclimit_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/grpclimit"
	"github.com/tokenbucket-go/ratelimit/internal/limittest"
)

// recovers turns panics of handlers into errors, as an interceptor of an app
// does.
func recovers(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(ctx, in)
}

func recoversStream(server any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handler(server, ss)
}

func TestSlotsComeBackWhenACallIsOver(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "slots", Limits: []core.Limit{core.InFlight(1)}})
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	started, end := make(chan struct{}), make(chan func() error)
	at := func() error { started <- struct{}{}; return (<-end)() }
	h := handlers{once: func(_ context.Context, in *text) (*text, error) { return in, at() }, talk: func(grpc.ServerStream) error { return at() }}
	conn := serve(t, h, []grpc.UnaryServerInterceptor{recovers, grpclimit.Unary(limiter, key)}, []grpc.StreamServerInterceptor{recoversStream, grpclimit.Stream(limiter, key)})
	one := map[string]func() error{
		"unary":  func() error { return call(within(t), conn).err },
		"stream": func() error { return say(open(within(t), t, conn)) },
	}
	for mode, run := range one {
		for how, over := range map[string]func() error{
			"succeeds": func() error { return nil },
			"fails":    func() error { return status.Error(codes.NotFound, "") },
			"panics":   func() error { panic("handler") },
		} {
			t.Run(mode+" that "+how, func(t *testing.T) {
				limittest.ComesBack(t, limiter, "all", 1, "the premise: the slot is free")
				result := make(chan error, 1)
				go func() { result <- run() }()
				<-started
				assert.EqualValues(t, 0, limittest.Left(t, limiter, "all"), "a call at work holds its slot")
				assert.Equal(t, codes.ResourceExhausted, status.Code(run()), "no slot is left for another")
				end <- over
				<-result
				limittest.ComesBack(t, limiter, "all", 1, "the slot of a call that is over comes back")
			})
		}
	}
}

func TestRefundsGoByCode(t *testing.T) {
	limiter := perHour("logins", 5)
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	var fails error
	var panics bool
	h := handlers{once: func(_ context.Context, in *text) (*text, error) {
		if panics {
			panic("handler")
		}
		return in, fails
	}}
	var seen codes.Code
	conn := unary(t, h, recovers, grpclimit.Unary(limiter, key, grpclimit.WithRefund(func(_ *grpclimit.Call, code codes.Code) bool {
		seen = code
		return code == codes.NotFound
	})))
	for _, test := range []struct {
		err    error
		panics bool
		want   codes.Code
		left   int64
	}{
		{nil, false, codes.OK, 4},
		{status.Error(codes.NotFound, ""), false, codes.NotFound, 4},
		{context.DeadlineExceeded, false, codes.DeadlineExceeded, 3},
		{assert.AnError, false, codes.Unknown, 2},
		{nil, true, codes.Internal, 1},
	} {
		fails, panics = test.err, test.panics
		a := call(within(t), conn)
		assert.Equal(t, test.want, status.Code(a.err), "the premise: what the client gets")
		assert.Equal(t, test.want, seen, "refund sees the code that the client gets")
		assert.Equal(t, test.left, limittest.Left(t, limiter, "all"), "only NotFound gives the token back")
	}
}

func TestUnitsAreTakenAndSettled(t *testing.T) {
	limiter := limiterOf(core.Policy{Name: "bytes", Limits: []core.Limit{{Unit: "bytes", Capacity: 100, RefillRate: 1, RefillInterval: 1e15}}})
	key := func(*grpclimit.Call) (string, error) { return "all", nil }
	units := grpclimit.WithUnits(func(c *grpclimit.Call) (core.Units, error) { return core.Units{"bytes": 40}, nil })
	var held int64
	h := handlers{once: func(_ context.Context, in *text) (*text, error) {
		held = limittest.Left(t, limiter, "all")
		return in, nil
	}}
	conn := unary(t, h, grpclimit.Unary(limiter, key, units, grpclimit.WithSettle(func(c *grpclimit.Call, code codes.Code) core.Units {
		assert.Equal(t, codes.OK, code)
		return core.Units{"bytes": int64(len(c.Message.(*text).GetValue()))}
	})))
	require.NoError(t, call(within(t), conn).err)
	assert.EqualValues(t, 60, held, "the estimate is taken before the handler runs")
	assert.EqualValues(t, 95, limittest.Left(t, limiter, "all"), "what was used is taken in the end")
}

func TestRulesDecideTogether(t *testing.T) {
	users, all := perHour("users", 2), perHour("all", 3)
	rules := []grpclimit.Rule{{Limiter: users, Key: byKey}, {Limiter: all, Key: func(*grpclimit.Call) (string, error) { return "all", nil }}}
	conn := serve(t, handlers{}, []grpc.UnaryServerInterceptor{grpclimit.UnaryTogether(rules)}, []grpc.StreamServerInterceptor{grpclimit.StreamTogether(rules)})
	a := as(within(t), "a")
	require.NoError(t, call(a, conn).err)
	require.NoError(t, say(open(a, t, conn)))
	denied := call(a, conn)
	require.Equal(t, codes.ResourceExhausted, status.Code(denied.err))
	_, limits := details(denied.err)
	assert.Equal(t, []string{"users"}, limits)
	assert.EqualValues(t, 1, limittest.Left(t, all, "all"), "a denied call takes nothing from any limiter")
}

func TestSkippedCallsAreNotCounted(t *testing.T) {
	s := grpc.NewServer(
		grpc.UnaryInterceptor(grpclimit.Unary(perHour("calls", 1), grpclimit.Global("all"), grpclimit.WithSkip(grpclimit.HealthAndReflection))),
		grpc.StreamInterceptor(grpclimit.Stream(perHour("streams", 1), grpclimit.Global("all"), grpclimit.WithSkip(grpclimit.HealthAndReflection))),
	)
	healthpb.RegisterHealthServer(s, health.NewServer())
	reflection.Register(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	for range 3 {
		var header metadata.MD
		_, err := healthpb.NewHealthClient(conn).Check(within(t), &healthpb.HealthCheckRequest{}, grpc.Header(&header))
		assert.NoError(t, err, "a health check passes")
		assert.Empty(t, header.Get("x-ratelimit-limit"), "a skipped call has no fields")
		info, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(within(t))
		require.NoError(t, err)
		require.NoError(t, info.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}))
		_, err = info.Recv()
		assert.NoError(t, err, "reflection passes")
	}
}

func TestHandlersFindTheDecisions(t *testing.T) {
	outer, inner := perHour("outer", 9), perHour("inner", 5)
	check := func(ctx context.Context) {
		res, ok := grpclimit.FromContext(ctx)
		assert.True(t, ok)
		assert.EqualValues(t, 4, res.Remaining, "the decision of the limiter nearest to the handler")
		assert.Len(t, grpclimit.AllFromContext(ctx), 2)
	}
	h := handlers{
		once: func(ctx context.Context, in *text) (*text, error) { check(ctx); return in, nil },
		talk: func(ss grpc.ServerStream) error { check(ss.Context()); return echo(ss) },
	}
	conn := serve(t, h,
		[]grpc.UnaryServerInterceptor{grpclimit.Unary(outer, grpclimit.ByMethod()), grpclimit.Unary(inner, grpclimit.ByMethod())},
		[]grpc.StreamServerInterceptor{grpclimit.Stream(outer, grpclimit.ByMethod()), grpclimit.Stream(inner, grpclimit.ByMethod())})
	require.NoError(t, call(within(t), conn).err)
	require.NoError(t, say(open(within(t), t, conn)))
	_, ok := grpclimit.FromContext(t.Context())
	assert.False(t, ok, "without an interceptor there is no decision")
}

func TestKeysOfCalls(t *testing.T) {
	ctx := metadata.NewOutgoingContext(within(t), metadata.Pairs("x-api-key", "k", "x-forwarded-for", "203.0.113.9, 127.0.0.1", "twice", "1", "twice", "2"))
	for name, test := range map[string]struct {
		key  grpclimit.KeyFunc
		want string // "": there is none
	}{
		"ByMetadata":            {grpclimit.ByMetadata("X-Api-Key"), "x-api-key:k"},
		"ByMetadata, several":   {grpclimit.ByMetadata("twice"), ""},
		"ByMetadata, none":      {grpclimit.ByMetadata("none"), ""},
		"ByPeer":                {grpclimit.ByPeer(), "ip:127.0.0.1"},
		"ByPeer behind a proxy": {grpclimit.ByPeer(core.TrustProxies("127.0.0.0/8")), "ip:203.0.113.9"},
		"ByPeer, another proxy": {grpclimit.ByPeer(core.TrustProxies("10.0.0.0/8")), "ip:127.0.0.1"},
		"ByMethod":              {grpclimit.ByMethod(), "method:" + once},
		"ByService":             {grpclimit.ByService(), "service:" + service},
		"ByContextValue":        {grpclimit.ByContextValue(user{}), "value:grpclimit_test.user {}:7"},
		"Global":                {grpclimit.Global("all"), "global:all"},
		"Join":                  {grpclimit.Join(grpclimit.ByService(), byKey), "service:" + service + "|x-api-key:k"},
		"Join, one missing":     {grpclimit.Join(grpclimit.ByService(), grpclimit.ByMetadata("none")), ""},
		"FirstOf":               {grpclimit.FirstOf(grpclimit.ByMetadata("none"), byKey), "x-api-key:k"},
		"own, of context and call": {func(c *grpclimit.Call) (string, error) {
			v, _ := c.Context().Value(user{}).(int)
			return c.FullMethod[:5] + string(rune('0'+v)), nil
		}, "/test7"},
		"own, of the message": {func(c *grpclimit.Call) (string, error) { return c.Message.(*text).GetValue(), nil }, "hello"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			got := ""
			key := func(c *grpclimit.Call) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				var err error
				got, err = test.key(c)
				return got, err
			}
			login := func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				return handler(context.WithValue(ctx, user{}, 7), in)
			}
			a := call(ctx, unary(t, handlers{}, login, grpclimit.Unary(perHour("calls", 1), key)))
			if test.want == "" {
				assert.Equal(t, codes.InvalidArgument, status.Code(a.err), "a call without a usable key")
				return
			}
			assert.NoError(t, a.err)
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, test.want, got, "keys are those of the adapters for HTTP")
		})
	}
}

func TestAPeerOnAUnixSocketNeedsATrustedProxy(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name string
		key  grpclimit.KeyFunc
		want codes.Code
	}{{"a", grpclimit.ByPeer(), codes.InvalidArgument}, {"b", grpclimit.ByPeer(core.TrustProxies("unix:")), codes.OK}} {
		l, err := net.Listen("unix", filepath.Join(dir, test.name))
		require.NoError(t, err)
		s := grpc.NewServer(grpc.UnaryInterceptor(grpclimit.Unary(perHour("calls", 1), test.key)))
		healthpb.RegisterHealthServer(s, health.NewServer())
		go func() { _ = s.Serve(l) }()
		conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		ctx := metadata.AppendToOutgoingContext(within(t), "x-forwarded-for", "203.0.113.9")
		_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		assert.Equal(t, test.want, status.Code(err))
		_ = conn.Close()
		s.Stop()
	}
}

func TestMistakesInArgumentsPanicTogether(t *testing.T) {
	for name, interceptor := range map[string]func(){
		"Unary":          func() { grpclimit.Unary(nil, grpclimit.ByMetadata("")) },
		"Stream":         func() { grpclimit.Stream(nil, grpclimit.Join(grpclimit.ByMetadata("a b"))) },
		"UnaryTogether":  func() { grpclimit.UnaryTogether([]grpclimit.Rule{{Key: grpclimit.ByMetadata("é")}}) },
		"StreamTogether": func() { grpclimit.StreamTogether([]grpclimit.Rule{{Key: grpclimit.ByMetadata("a:b")}}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				require.Error(t, err, "wrong arguments panic")
				assert.ErrorContains(t, err, "limiter")
				assert.ErrorContains(t, err, "ByMetadata")
			}()
			interceptor()
		})
	}
}
