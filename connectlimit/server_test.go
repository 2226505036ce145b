package connectlimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tokenbucket-go/ratelimit/core"
)

// Procedures of the service that tests call.
const (
	service = "test.v1.Test"
	once    = "/" + service + "/Once"   // unary
	talk    = "/" + service + "/Talk"   // a stream of both sides
	count   = "/" + service + "/Count"  // a stream of the server
	gather  = "/" + service + "/Gather" // a stream of the client
)

type (
	text     = wrapperspb.StringValue
	request  = connect.Request[text]
	response = connect.Response[text]
	bidi     = connect.BidiStream[text, text]
)

// handlers are what the service does. By default a unary call succeeds, and a
// stream answers each message by the same one.
type handlers struct {
	once   func(ctx context.Context, in *request) (*response, error)
	talk   func(ctx context.Context, s *bidi) error
	count  func(ctx context.Context, in *request, s *connect.ServerStream[text]) error
	gather func(ctx context.Context, s *connect.ClientStream[text]) (*response, error)
}

func echo(_ context.Context, s *bidi) error {
	for {
		m, err := s.Receive()
		if err != nil {
			return ended(err)
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
}

// ended is what a handler returns when the client has closed its side.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (h handlers) mux(options ...connect.HandlerOption) *http.ServeMux {
	if h.once == nil {
		h.once = func(_ context.Context, in *request) (*response, error) { return connect.NewResponse(in.Msg), nil }
	}
	if h.talk == nil {
		h.talk = echo
	}
	if h.count == nil {
		h.count = func(_ context.Context, in *request, s *connect.ServerStream[text]) error {
			return errors.Join(s.Send(in.Msg), s.Send(in.Msg))
		}
	}
	if h.gather == nil {
		h.gather = func(_ context.Context, s *connect.ClientStream[text]) (*response, error) {
			for s.Receive() {
			}
			return connect.NewResponse(hello()), s.Err()
		}
	}
	mux := http.NewServeMux()
	mux.Handle(once, connect.NewUnaryHandler(once, h.once, options...))
	mux.Handle(talk, connect.NewBidiStreamHandler(talk, h.talk, options...))
	mux.Handle(count, connect.NewServerStreamHandler(count, h.count, options...))
	mux.Handle(gather, connect.NewClientStreamHandler(gather, h.gather, options...))
	return mux
}

// server serves on loopback, with HTTP/2.
type server struct {
	*httptest.Server
	protocol string
}

// serve serves h behind interceptors until the test ends.
func serve(t *testing.T, h handlers, interceptors ...connect.Interceptor) server {
	t.Helper()
	s := httptest.NewUnstartedServer(h.mux(connect.WithInterceptors(interceptors...)))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return server{s, connect.ProtocolConnect}
}

// protocols are those of clients.
var protocols = map[string][]connect.ClientOption{
	connect.ProtocolConnect: nil,
	connect.ProtocolGRPC:    {connect.WithGRPC()},
	connect.ProtocolGRPCWeb: {connect.WithGRPCWeb()},
}

// speak runs a test with each protocol.
func speak(t *testing.T, s server, test func(t *testing.T, s server)) {
	t.Helper()
	for protocol := range protocols {
		t.Run(protocol, func(t *testing.T) { test(t, server{s.Server, protocol}) })
	}
}

// client returns a client of a procedure. It calls seen, unless that is nil,
// with each answer when its body has been read.
func (s server) client(procedure string, seen func(*http.Response)) *connect.Client[text, text] {
	c := *s.Client()
	c.Transport = watched{c.Transport, seen}
	return connect.NewClient[text, text](&c, s.URL+procedure, protocols[s.protocol]...)
}

// watched is a transport whose answers are seen.
type watched struct {
	http.RoundTripper
	seen func(*http.Response)
}

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := w.RoundTripper.RoundTrip(r)
	if err == nil && w.seen != nil {
		res.Body = watchedBody{res.Body, func() { w.seen(res) }}
	}
	return res, err
}

type watchedBody struct {
	io.ReadCloser
	seen func()
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.seen()
	}
	return n, err
}

// within is the context of a test's calls.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// answer is what a client gets.
type answer struct {
	err                   error
	header, trailer, meta http.Header // as HTTP has it; meta is of the error
}

// call makes a unary call with an API key, unless that is "".
func (s server) call(t *testing.T, key string) (a answer) {
	t.Helper()
	a, _ = s.send(t, key)
	return a
}

func (s server) send(t *testing.T, key string) (a answer, res *response) {
	t.Helper()
	req := connect.NewRequest(hello())
	if key != "" {
		req.Header().Set("X-Api-Key", key)
	}
	res, a.err = s.client(once, func(r *http.Response) { a.header, a.trailer = r.Header, r.Trailer }).CallUnary(within(t), req)
	if e := (*connect.Error)(nil); errors.As(a.err, &e) {
		a.meta = e.Meta()
	}
	return a, res
}

type stream = connect.BidiStreamForClient[text, text]

// open opens a stream with an API key, unless that is "".
func (s server) open(t *testing.T, key string) *stream {
	t.Helper()
	cs := s.openWithin(within(t), key)
	t.Cleanup(func() { _ = cs.CloseRequest() }) // the end of its context alone does not end a request that has an answer
	return cs
}

func (s server) openWithin(ctx context.Context, key string) *stream {
	cs := s.client(talk, nil).CallBidiStream(ctx)
	if key != "" {
		cs.RequestHeader().Set("X-Api-Key", key)
	}
	return cs
}

// say sends a message and receives the answer.
func say(cs *stream) error {
	_ = cs.Send(hello()) // Receive has the error
	_, err := cs.Receive()
	return err
}

// closed closes a stream of the client's side and waits for its end.
func closed(cs *stream) error {
	_ = cs.CloseRequest()
	_, err := cs.Receive()
	return ended(err)
}

// detailsOf returns those of a refusal: how long to wait, and the limits that
// lack tokens.
func detailsOf(err error) (retry *errdetails.RetryInfo, limits []string) {
	var refusal *connect.Error
	if !errors.As(err, &refusal) {
		return nil, nil
	}
	for _, d := range refusal.Details() {
		value, err := d.Value()
		if err != nil {
			panic(err)
		}
		switch d := value.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			for _, v := range d.GetViolations() {
				limits = append(limits, v.GetSubject())
			}
		}
	}
	return retry, limits
}

func limiterOf(policy core.Policy) *core.Limiter {
	return core.Must(core.NewLimiter(core.NewMemoryStore(), policy))
}

func perHour(name string, n int) *core.Limiter {
	return limiterOf(core.Policy{Name: name, Headers: core.HeadersDraft8, Limits: []core.Limit{core.PerHour(n)}})
}

func hello() *text { return wrapperspb.String("hello") }
