package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/connectlimit"
	"github.com/tokenbucket-go/ratelimit/core"
)

const greet = "/demo.v1.Demo/Greet"

type word = wrapperspb.StringValue

// greetings serves a procedure behind interceptors, and calls use with a
// function that calls it with an API key and a name.
func greetings(use func(call func(key, name string) (*connect.Response[word], error)), interceptors ...connect.Interceptor) {
	handler := func(_ context.Context, in *connect.Request[word]) (*connect.Response[word], error) {
		if in.Msg.GetValue() == "nobody" {
			return nil, connect.NewError(connect.CodeNotFound, errors.New("nobody is here"))
		}
		return connect.NewResponse(wrapperspb.String("hello " + in.Msg.GetValue())), nil
	}
	server := httptest.NewServer(connect.NewUnaryHandler(greet, handler, connect.WithInterceptors(interceptors...)))
	defer server.Close()
	client := connect.NewClient[word, word](server.Client(), server.URL+greet)
	use(func(key, name string) (*connect.Response[word], error) {
		req := connect.NewRequest(wrapperspb.String(name))
		req.Header().Set("X-Api-Key", key)
		return client.CallUnary(context.Background(), req)
	})
}

// show prints the code of an answer.
func show(err error) {
	if err == nil {
		fmt.Println("ok")
	} else {
		fmt.Println(connect.CodeOf(err))
	}
}

// oncePerHour is a limiter of one call an hour.
func oncePerHour(name string) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{
		Name: name, Limits: []core.Limit{core.PerHour(1)}, Headers: core.HeadersDraft8,
	}))
}

// Each API key has one call an hour. The details of a denial say what a client
// needs.
func Example() {
	limits := connectlimit.New(oncePerHour("calls"), connectlimit.ByHeader("X-Api-Key"))
	greetings(func(call func(key, name string) (*connect.Response[word], error)) {
		res, err := call("ann-key", "ann")
		fmt.Println(res.Msg.GetValue(), err, res.Header().Get("RateLimit-Policy"))
		_, err = call("ann-key", "ann")
		show(err)
		if denial, ok := errors.AsType[*connect.Error](err); ok {
			fmt.Println("has Retry-After:", denial.Meta().Get("Retry-After") != "")
			for _, detail := range denial.Details() {
				switch d := core.Must(detail.Value()).(type) {
				case *errdetails.RetryInfo:
					fmt.Println("minutes to wait:", d.GetRetryDelay().AsDuration().Round(60e9).Minutes())
				case *errdetails.QuotaFailure:
					fmt.Println("limit:", d.GetViolations()[0].GetQuotaId())
				}
			}
		}
		_, err = call("", "eve")
		show(err)
	}, limits)
	// Output:
	// hello ann <nil> "calls";q=1;w=3600
	// resource_exhausted
	// has Retry-After: true
	// minutes to wait: 60
	// limit: calls
	// invalid_argument
}

// A key of the context and the call: who an interceptor in front found, and
// what is called.
func ExampleKeyFunc() {
	type user struct{}
	login := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			return next(context.WithValue(ctx, user{}, req.Header().Get("X-Api-Key")), req) // or who has the key
		}
	})
	byUser := func(c *connectlimit.Call) (string, error) {
		name, ok := c.Context().Value(user{}).(string)
		if !ok {
			return "", core.ErrNoKey
		}
		return core.JoinKey("user", name, c.Procedure), nil
	}
	greetings(func(call func(key, name string) (*connect.Response[word], error)) {
		for range 2 {
			_, err := call("ann-key", "ann")
			show(err)
		}
	}, login, connectlimit.New(oncePerHour("calls"), byUser))
	// Output:
	// ok
	// resource_exhausted
}

// A call costs what its message says.
func ExampleCall() {
	limiter := core.Must(core.NewLimiter(core.NewMemoryStore(), core.Policy{Name: "calls", Limits: []core.Limit{core.PerHour(10)}}))
	byLength := connectlimit.WithCost(func(c *connectlimit.Call) (int64, error) {
		request, ok := c.Message.(*word)
		if !ok {
			return 0, core.ErrUnknownCost
		}
		return int64(len(request.GetValue())), nil
	})
	greetings(func(call func(key, name string) (*connect.Response[word], error)) {
		for _, name := range []string{"barbara", "barbara", "ann"} {
			_, err := call("", name)
			show(err)
		}
	}, connectlimit.New(limiter, connectlimit.ByPeer(), byLength))
	// Output:
	// ok
	// resource_exhausted
	// ok
}

// Calls that find nothing are free.
func ExampleOption() {
	refund := connectlimit.WithRefund(func(_ *connectlimit.Call, code connect.Code) bool { return code == connect.CodeNotFound })
	greetings(func(call func(key, name string) (*connect.Response[word], error)) {
		for _, name := range []string{"nobody", "ann", "ann"} {
			_, err := call("", name)
			show(err)
		}
	}, connectlimit.New(oncePerHour("calls"), connectlimit.ByPeer(), refund))
	// Output:
	// not_found
	// ok
	// resource_exhausted
}

// A call pays for its client and for the service, or for none of them.
func ExampleRule() {
	rules := []connectlimit.Rule{
		{Limiter: oncePerHour("client"), Key: connectlimit.ByHeader("X-Api-Key")},
		{Limiter: oncePerHour("service"), Key: connectlimit.ByService()},
	}
	greetings(func(call func(key, name string) (*connect.Response[word], error)) {
		for _, key := range []string{"ann-key", "bob-key"} {
			_, err := call(key, "ann")
			show(err)
		}
	}, connectlimit.NewTogether(rules))
	// Output:
	// ok
	// resource_exhausted
}

// Health checks and reflection pass.
func ExampleWithSkip() {
	const check = "/grpc.health.v1.Health/Check"
	limits := connectlimit.New(oncePerHour("calls"), connectlimit.ByPeer(), connectlimit.WithSkip(connectlimit.HealthAndReflection))
	server := httptest.NewServer(connect.NewUnaryHandler(check, func(context.Context, *connect.Request[word]) (*connect.Response[word], error) {
		return connect.NewResponse(&word{}), nil
	}, connect.WithInterceptors(limits)))
	defer server.Close()
	for range 3 {
		_, err := connect.NewClient[word, word](server.Client(), server.URL+check).CallUnary(context.Background(), connect.NewRequest(&word{}))
		show(err)
	}
	// Output:
	// ok
	// ok
	// ok
}

// Each message that the server receives pays.
func ExamplePerMessage() {
	const join = "/demo.v1.Demo/Join"
	limits := connectlimit.New(oncePerHour("messages"), connectlimit.ByPeer(), connectlimit.PerMessage())
	server := httptest.NewServer(connect.NewClientStreamHandler(join, func(_ context.Context, s *connect.ClientStream[word]) (*connect.Response[word], error) {
		for s.Receive() {
			fmt.Println("received", s.Msg().GetValue())
		}
		return connect.NewResponse(&word{}), s.Err()
	}, connect.WithInterceptors(limits)))
	defer server.Close()
	stream := connect.NewClient[word, word](server.Client(), server.URL+join).CallClientStream(context.Background())
	for _, name := range []string{"ann", "bob"} {
		_ = stream.Send(wrapperspb.String(name)) // CloseAndReceive has the error
	}
	_, err := stream.CloseAndReceive()
	show(err)
	// Output:
	// received ann
	// resource_exhausted
}
